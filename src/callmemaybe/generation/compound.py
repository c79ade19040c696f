"""Several calls for one request, from a model that answers a request with one call.

A compound request ("kitchen on and the weather in Paris") is cut at the ends of sentences and at words such as
*and* and *then*, and the model is asked about the parts. A cut counts only if all of this holds:

- Both parts get a call, each with a probability of at least ``SURE`` (``VERY_SURE`` where the
  second begins with an article), and each is supported by its part: by a value
  that stands there, or by a word of the function's name.
- The part behind the cut can stand alone: it does not begin as a statement does ("with", "3", "size="),
  refers to nothing before it ("it", "them", "there"), and is more than one word.
- No value of the call of the whole request stands across the cut, and no list of it has elements of both sides.
- Two functions: the call of the whole request does not give to one of them what only the other's part says.
  One function: both parts have all that it requires, with different values, the call of the whole request has not
  the values of both, and they are no "A and B" side by side.

Names of things side by side ("the weather in Paris, Oslo and London") become a request each if the parameter takes
one such thing: it has an enum, or is named so (``city``, ``room``; see ``ONE_THING``), and the calls differ in
nothing else.

Other lists, and parts that say only what is different from the part before, are those of
:mod:`callmemaybe.generation.coordination`.

The words are English. A request without a place to cut costs nothing; each part costs a call, and at most
``MOST_PARTS`` are asked about.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from callmemaybe.errors import BudgetError, GroundingError, ModelOutputError
from callmemaybe.generation import coordination
from callmemaybe.generation.config import DecodingConfig
from callmemaybe.generation.result import TurnResult
from callmemaybe.generation.turn import TurnGenerator, TurnSteps
from callmemaybe.tools import StreamEvent, ToolCall, ToolSpec
from callmemaybe.wire.output_grammar import MAX_CALLS, OutputSpec

SURE, VERY_SURE = 0.8, 0.95
#: Cuts in a request, and in a sentence; requests with more are one.
MOST_PARTS, MOST_CUTS = 24, 12
#: Words of a thing that stands beside another.
MOST_WORDS = 3
#: Last words of parameters that take the name of one thing.
ONE_THING = frozenset((
    "city", "location", "place", "town", "country", "region", "state", "address", "room", "area", "zone", "device",
    "entity", "light", "lamp", "symbol", "ticker", "currency", "language", "timezone", "id", "file", "path", "url",
    "to", "recipient", "contact", "person", "user", "employee", "student", "patient",
))  # fmt: skip

_HIDDEN = re.compile(
    r'"[^"]*"|“[^”]*”|«[^»]*»|`[^`]*`|(?<!\w)\'[^\']*\'(?!\w)|\([^()]*\)|\[[^\[\]]*\]|\{[^{}]*\}'
)
_SENTENCE_END = re.compile(r"(?<=[.!?;])[\"”’']?\s+|;\s*|\s*\n\s*")
_ABBREVIATION = re.compile(
    r"(?<!\w)(?:[A-Z]|Mr|Mrs|Ms|Dr|St|Prof|vs|v|etc|No|Inc|Ltd|Co|Corp|Jr|Sr|e\.g|i\.e|a\.m|p\.m|U\.S|approx|\d+)\.$"
)
_CLAUSE_END = re.compile(
    r",?\s+(?:and then|and also|and|then|also|plus|as well as|after that)(?=[\s,]),?\s*|,\s+",
    re.IGNORECASE,
)
_AND = re.compile(r",?\s+and\s+|,\s+", re.IGNORECASE)
#: A thing is the word before a comma or "and", with the capitalised words in front of it.
_THING = r"(?:[A-Z][^\s,;.!?]* )*[^\s,;.!?]+"
_THINGS = re.compile(
    rf"(?P<first>{_THING})(?P<middle>(?:, [^,;.!?]{{1,40}})*?),? and "
    r"(?:(?:in|at|for|to|of|on) )?(?:the |my |our )?(?P<last>[^,;.!?]+)"
)
_REFERENCE = re.compile(
    r"(?<!does )(?<!is )(?<!did )(?<!will )(?<!was )(?<!if )(?<!are )\b(?:it|them|its|their|him|there)\b",
    re.IGNORECASE,
)
_NO_REQUEST = re.compile(
    r"\W*[-+.\d]|\W*(?:[\w.-]+\s+){0,2}[\w.-]+\s*[=:]|(?:do not|don't|not)\b|\w+ing\b",
    re.IGNORECASE,
)
#: A part that begins so names a parameter of the call in front of it.
_LABEL = re.compile(r"\W*[\w.-]+\s*[=:]")
_STATEMENT = frozenset((
    "it", "its", "this", "that", "these", "those", "they", "he", "she", "their", "his", "her", "there", "here", "of",
    "for", "in", "on", "at", "to", "from", "with", "by", "as", "who", "which", "whose", "where", "if", "when", "sure",
    "both", "each", "all", "one", "ones", "so", "but", "or", "nor", "except", "like", "such", "also", "too", "begin",
    "via", "per", "than", "plus", "minus", "times", "over", "under", "between", "then",
))  # fmt: skip
#: Words that begin a request in short ("the kitchen off") or go on with one.
_ARTICLES = frozenset(("the", "a", "an", "my", "our"))
#: What a part says that says only what is different from the part before it.
_HAS_VALUE = re.compile(r"\d|[\"'“][^\s]|\b[A-Z]\w|\w{4}")
_SMALL = frozenset((
    "the", "a", "an", "of", "for", "in", "on", "at", "to", "from", "with", "by", "and", "or", "is", "are", "be", "i",
    "me", "my", "you", "your", "it", "this", "that", "get", "set", "can", "please", "what", "how", "do", "does",
    "want", "need", "would", "like",
))  # fmt: skip
_WORD = re.compile(r"[A-Z]?[a-zà-ÿ]+|[A-Z]+")

#: Yields texts, and is sent what the model answers to each.
Asking = Generator[str, TurnResult, "list[Asked]"]


#: The events of each step of a turn; its result comes last.
Steps = Generator[Sequence[StreamEvent], None, TurnResult]


@dataclass(frozen=True)
class Asked:
    """A part of a request, and what the model answered to it (nothing, or one call)."""

    text: str
    result: TurnResult

    @property
    def call(self) -> ToolCall | None:
        """The first call; None if the model calls nothing."""
        return self.result.calls[0] if self.result.calls else None

    @property
    def name(self) -> str | None:
        """The name of the function that is called."""
        return self.call.name if self.call else None

    def values(self) -> Iterator[tuple[str, str]]:
        """Yield the parameter and the text, in lower case, of each value in the call but booleans and null."""
        for name, value in json.loads(_arguments(self)).items():
            yield from ((name, text) for text in _texts(value))

    def grounded(self) -> dict[str, str]:
        """Return the values that stand in the text, by parameter; the last one of each."""
        low = self.text.casefold()
        return {
            name: value for name, value in self.values() if value in low and value not in _SMALL
        }

    def is_sure(self, tools: Mapping[str, ToolSpec]) -> bool:
        """Whether there is a call, likely enough, of which the text says something."""
        if self.call is None or self.result.distribution.get(self.call.name, 1.0) < SURE:
            return False
        return bool(
            self.grounded() or name_words(self.text) & name_words(tools[self.call.name].name)
        )


def compound_calls(text: str, tools: Sequence[ToolSpec], whole: TurnResult) -> Asking:
    """Ask about the parts of a request; return them with a call each, or the request if that gives no more calls.

    Yields each text that the model is to be asked about, and wants its answer sent; that to the request itself is
    ``whole``.
    """
    # Against the first call alone: whatever else the model called of itself is another part.
    request = Asked(text, replace(whole, calls=whole.calls[:1]))
    by_name = {tool.name: tool for tool in tools}
    sentences = yield from _split_sentences(request, by_name)
    found: list[Asked] = []
    for sentence in sentences:
        found += yield from _split_clauses(sentence, by_name)
    distinct = {one.call.canonical: one for one in found if one.call}
    return list(distinct.values()) if len(distinct) > len(whole.calls) else [Asked(text, whole)]


def answer_parts(
    ask: Callable[[str], Steps],
    text: str,
    tools: Sequence[ToolSpec],
    whole: TurnResult,
) -> Generator[Sequence[StreamEvent], None, list[Asked]]:
    """Answer the parts of a request by ``ask``, whose steps are yielded; return them as :func:`compound_calls` does.

    ``whole`` is the answer to all of it. A part whose call cannot be made has none.
    """
    if not whole.calls or whole.ended == "length":
        return [Asked(text, whole)]
    asking = compound_calls(text, tools, whole)
    try:
        part = next(asking)
        while True:
            try:
                answer = yield from ask(part)
            except (BudgetError, GroundingError, ModelOutputError):
                answer = TurnResult()
            part = asking.send(answer if answer.ended == "stop" else TurnResult())
    except StopIteration as ended:
        found: list[Asked] = ended.value
        return found


def all_calls(
    generator: TurnGenerator,
    text: str,
    tools: Sequence[ToolSpec],
    decoding: DecodingConfig | None = None,
) -> list[ToolCall]:
    """Return all calls that a request wants; none if no function fits.

    A model that reads one request is asked about its parts, others make their calls in one turn. Errors are those of
    :meth:`TurnGenerator.stream`.
    """

    def ask(part: str, most: int = 1) -> TurnSteps:
        spec, messages = OutputSpec(no_call=True, most=most), [{"role": "user", "content": part}]
        stream = generator.stream(messages, tools, spec, decoding)
        yield from stream
        return stream.result

    def run() -> Generator[Sequence[StreamEvent], None, list[Asked]]:
        whole = yield from ask(text, MAX_CALLS)
        if not (generator.format.is_single_request and may_be_compound(text)):
            return [Asked(text, whole)]
        return (yield from answer_parts(ask, text, tools, whole))

    steps = run()
    try:
        while True:
            next(steps)
    except StopIteration as ended:
        found: list[Asked] = ended.value
        return [call for one in found for call in one.result.calls]


def may_be_compound(text: str) -> bool:
    """Whether there is any place where a request could be cut."""
    return bool(_cuts(text, _SENTENCE_END) or _cuts(text, _CLAUSE_END))


def referring_part(text: str) -> str:
    """Return the last part of a request that refers to what stands before it ("the weather there"); else all of it."""
    cuts = sorted(_cuts(text, _SENTENCE_END) + _cuts(text, _CLAUSE_END))
    parts = (
        [text[start:end] for start, end in _pieces(text, cuts)] if len(cuts) <= MOST_CUTS else []
    )
    return next((one for one in reversed(parts[1:]) if _REFERENCE.search(one)), text)


def name_words(text: str) -> set[str]:
    """Return the beginnings of the words of a name, or of a text, but the smallest words."""
    return {word[:5].casefold() for word in _WORD.findall(text) if word.casefold() not in _SMALL}


def _split_sentences(request: Asked, tools: Mapping[str, ToolSpec]) -> Asking:
    """Split a request into parts of one sentence, or of some that belong together."""
    text = request.text
    spans = _pieces(
        text, [at for at in _cuts(text, _SENTENCE_END) if not _ABBREVIATION.search(text[: at[0]])]
    )
    if not 1 < len(spans) <= MOST_PARTS:
        return [request]
    #: Where each part begins, where its own sentence and where all of it ends.
    groups: list[tuple[int, int, int, Asked]] = []
    begin = spans[0][0]
    for start, end in spans:
        one = Asked(text[start:end], (yield text[start:end]))
        last = groups[-1][3] if groups else None
        if one.is_sure(tools) and (last is None or _is_next_sentence(last, one, request, tools)):
            groups.append((start if groups else begin, end, end, one))
        elif groups:
            groups[-1] = (*groups[-1][:2], end, groups[-1][3])
    if len(groups) < 2:
        return [request]
    found = []
    for start, own_end, end, one in groups:
        part = text[start:end]
        if end > own_end or len(part) > len(one.text):
            longer = Asked(part, (yield part))
            one = longer if longer.name == one.name else one
        found.append(one)
    return found


def _is_next_sentence(
    last: Asked, one: Asked, request: Asked, tools: Mapping[str, ToolSpec]
) -> bool:
    if _depends(one.text):
        return False
    return one.name != last.name or _is_another(last, one, request, tools)


def _split_clauses(sentence: Asked, tools: Mapping[str, ToolSpec]) -> Asking:
    """Split a part at words like "and" and at commas."""
    text = sentence.text
    cuts = _cuts(text, _CLAUSE_END)
    if sentence.call is None or not 0 < len(cuts) <= MOST_CUTS:
        return [sentence]
    things = (yield from _split_lists(sentence, tools)) or (
        yield from _split_things(sentence, tools)
    )
    if things:
        return things
    found: list[Asked] = []
    begin, carried = 0, ""
    for start, end in cuts:
        left, right = carried + text[begin:start], text[end:]
        is_alone = len(right.split()) > 1 and not _depends(right)
        is_comma = text[start:end].strip() == ","
        if not left.strip() or not (is_alone or _HAS_VALUE.search(right)):
            continue
        if (is_comma and _depends(left)) or _is_across(sentence, start, end):
            continue
        first = Asked(left, (yield left))
        if not first.is_sure(tools):
            continue
        behind = ""
        second = Asked(right, (yield right)) if is_alone else None
        if second is None or not (
            second.is_sure(tools) and _are_two(first, second, sentence, text[start:end], tools)
        ):
            behind, second = yield from _carry(first, right, sentence, tools)
        if second is not None:
            found[-1:] = [first, second]
            begin, carried = end, behind
    return found or [sentence]


def _carry(
    first: Asked, right: str, whole: Asked, tools: Mapping[str, ToolSpec]
) -> Generator[str, TurnResult, tuple[str, Asked | None]]:
    """Ask about a part that only says what is different behind the beginning of the part before; return both.

    Only where the request as a whole is about that function, and no list has a thing more or less.
    """
    if whole.name != first.name or _LABEL.match(right) or _cuts(right, _SENTENCE_END):
        return "", None
    for behind, rest in coordination.carried(first.text, right, [*first.grounded().values()]):
        second = Asked(behind + rest, (yield behind + rest))
        if (
            second.is_sure(tools)
            and second.name == first.name
            and _is_another(first, second, whole, tools)
            and json.loads(_arguments(first)).keys() == json.loads(_arguments(second)).keys()
            and _lists(first) == _lists(second)
            and any(value in rest.casefold() for value in _new_values(first, second))
            and not (_names_parameters(first, tools) or _names_parameters(second, tools))
        ):
            return behind, second
    return "", None


def _lists(asked: Asked) -> list[Any]:
    return [one for one in json.loads(_arguments(asked)).values() if isinstance(one, list)]


def _names_parameters(asked: Asked, tools: Mapping[str, ToolSpec]) -> bool:
    """Whether a value is the name of a parameter: what it labels was written in another."""
    names = {*map(str.casefold, tools[str(asked.name)].parameters.get("properties", {}))}
    return any(value in names for value in asked.grounded().values())


def _new_values(first: Asked, second: Asked) -> list[str]:
    before = first.grounded()
    return [value for name, value in second.grounded().items() if before.get(name) != value]


def _split_lists(sentence: Asked, tools: Mapping[str, ToolSpec]) -> Asking:
    """Split at lists of values (see :mod:`callmemaybe.generation.coordination`)."""
    tool = tools[str(sentence.name)]
    lists = coordination.coordinations(sentence.text, json.loads(_arguments(sentence)))
    if not lists or not _are_meant_apart(lists, sentence, tool):
        return []
    found: list[Asked] = []
    for text in coordination.one_by_one(sentence.text, lists):
        one = Asked(text, (yield text))
        if one.name != sentence.name or not one.is_sure(tools):
            return []
        found.append(one)
    return found if _differ_in(lists, found, sentence.text) else []


def _are_meant_apart(
    lists: Sequence[coordination.Coordination], sentence: Asked, tool: ToolSpec
) -> bool:
    """Whether lists are of values for several calls, and not one value each: "milk and eggs" may be one text."""
    properties = tool.parameters.get("properties", {})
    one = lists[0]
    if len(lists) > 1 or coordination.says_each(sentence.text):
        return True
    if not one.is_joint and coordination.is_marked(sentence.text, one):
        return True
    return _takes_one(one.parameter, tool) or properties.get(one.parameter, {}).get("type") in (
        "number",
        "integer",
    )


def _differ_in(
    lists: Sequence[coordination.Coordination], found: Sequence[Asked], text: str
) -> bool:
    """Whether each call has its own thing of each list, and all else is the same."""
    names = {one.parameter for one in lists}
    calls = [json.loads(_arguments(one)) for one in found]
    rest = [{name: v for name, v in call.items() if name not in names} for call in calls]
    if any(one != rest[0] for one in rest[1:]):
        return False
    for one in lists:
        for (low, high), call in zip(one.items, calls, strict=True):
            value = str(call.get(one.parameter, "")).casefold()
            if not value or value not in text[low:high].casefold():
                return False
    return True


def _are_two(
    first: Asked, second: Asked, whole: Asked, between: str, tools: Mapping[str, ToolSpec]
) -> bool:
    is_short = second.text.split()[0].casefold() in _ARTICLES
    if is_short and second.result.distribution.get(second.name, 1.0) < VERY_SURE:
        return False
    if first.name != second.name:
        if is_short and not second.grounded():
            return False
        return not (_shares(whole, first, second) or _shares(whole, second, first))
    if between.strip() == "," or (_AND.fullmatch(between) and _touch(first, second)):
        return False
    if is_short and len(second.grounded()) + _flag_count(second) < 2:
        return False
    return _is_another(first, second, whole, tools)


def _shares(whole: Asked, one: Asked, other: Asked) -> bool:
    """Whether the call of the whole request is that of a part, and has more from the text of the other part.

    A value in place of one that the part has by itself says nothing: the model has mixed two requests up.
    """
    own, here, there = one.grounded(), other.text.casefold(), one.text.casefold()
    return whole.name == one.name and any(
        name not in own and value in here and value not in there for name, value in whole.values()
    )


def _flag_count(asked: Asked) -> int:
    return sum(isinstance(value, bool) for value in json.loads(_arguments(asked)).values())


def _is_another(first: Asked, second: Asked, whole: Asked, tools: Mapping[str, ToolSpec]) -> bool:
    """Whether two calls of one function are two: complete and different, and not both within one call."""
    mine, other = first.grounded(), second.grounded()
    flags = {
        name for name, value in json.loads(_arguments(first)).items() if isinstance(value, bool)
    }
    required = {*tools[str(first.name)].parameters.get("required", ())} - flags
    complete = mine.keys() >= required and other.keys() >= required
    if not (complete if required else mine.keys() == other.keys() != set()):
        return False
    if all(mine[name] == other[name] for name in mine.keys() & other.keys()):
        return False
    if any(
        len(values) != len({*values})
        for values in ([v for _, v in one.values()] for one in (first, second))
    ):
        return False  # a value was used twice for want of another
    has = [value for _, value in whole.values()]
    everything = (*mine.values(), *other.values())
    return whole.name != first.name or not all(
        any(one in value for value in has) for one in everything
    )


def _split_things(sentence: Asked, tools: Mapping[str, ToolSpec]) -> Asking:
    """Split "X A, B and C Y" into "X A Y", "X B Y" and "X C Y" where a parameter takes one such thing."""
    text, tool = sentence.text, tools[str(sentence.name)]
    match = _THINGS.search(text)
    if match is None or not any(
        _takes_one(name, tool) for name in json.loads(_arguments(sentence))
    ):
        return []
    start, words = match.start(), match["last"].split()
    middle = [one for one in match["middle"].split(", ") if one]
    for size in range(min(len(words), MOST_WORDS), 0, -1):
        last = " ".join(words[:size])
        rest = text[match.start("last") + len(last) :]
        found: list[Asked] = []
        for thing in (match["first"], *middle, last):
            one = text[:start] + thing + rest
            found.append(Asked(one, (yield one)))
            if not _names(found, thing, tools):
                break
        else:
            return found
    return []


def _names(found: Sequence[Asked], thing: str, tools: Mapping[str, ToolSpec]) -> bool:
    """Whether the last call has a thing as one value, and differs from the first in that alone."""
    one, first = found[-1], found[0]
    if one.name != first.name or not one.is_sure(tools):
        return False
    mine, other = json.loads(_arguments(one)), json.loads(_arguments(first))
    naming = {name for name, value in mine.items() if str(value).casefold() == thing.casefold()}
    if mine.keys() != other.keys():
        return False
    differ = naming if one is first else {name for name in mine if mine[name] != other[name]}
    return len(differ) == 1 and differ <= naming and _takes_one(min(differ), tools[str(one.name)])


def _takes_one(name: str, tool: ToolSpec) -> bool:
    schema = tool.parameters.get("properties", {}).get(name, {})
    words = _WORD.findall(name)
    return "enum" in schema or bool(words and words[-1].casefold() in ONE_THING)


def _depends(text: str) -> bool:
    """Whether a text cannot be a request by itself."""
    words = re.findall(r"[\w']+", text)
    return (
        not words
        or words[0].casefold() in _STATEMENT
        or bool(_NO_REQUEST.match(text) or _REFERENCE.search(text))
    )


def _is_across(whole: Asked, start: int, end: int) -> bool:
    """Whether a value of a call stands across a cut, or a list has elements of both sides."""
    text = whole.text.casefold()
    if len(text) != len(whole.text):
        return True  # positions differ
    for _, value in whole.values():
        at = text.find(value)
        while value and at >= 0:
            if at < start and at + len(value) > end:
                return True
            at = text.find(value, at + 1)
    left, right = text[:start], text[end:]
    for each in json.loads(_arguments(whole)).values():
        items = [*_texts(each)] if isinstance(each, list) else []
        if any(one in left for one in items) and any(
            one in right and one not in left for one in items
        ):
            return True
    return False


def _touch(first: Asked, second: Asked) -> bool:
    """Whether a value ends at the end of the first part and another begins the second."""
    left, right = first.text.casefold().rstrip(" \"'”’"), second.text.casefold().lstrip(" \"'“‘")
    return any(left.endswith(value) for _, value in first.values()) and any(
        right.startswith(value) for _, value in second.values()
    )


def _arguments(asked: Asked) -> str:
    return asked.call.arguments if asked.call else "{}"


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, Mapping):
        for inner in value.values():
            yield from _texts(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from _texts(inner)
    elif value is not None and not isinstance(value, bool):
        yield str(value).casefold()


def _cuts(text: str, pattern: re.Pattern[str]) -> list[tuple[int, int]]:
    hidden = [match.span() for match in _HIDDEN.finditer(text)]
    return [
        match.span()
        for match in pattern.finditer(text)
        if not any(start < match.start() and match.end() < end for start, end in hidden)
    ]


def _pieces(text: str, cuts: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    ends = [0, *(at for cut in cuts for at in cut), len(text)]
    spans = zip(ends[::2], ends[1::2], strict=True)
    return [(start, end) for start, end in spans if text[start:end].strip()]
