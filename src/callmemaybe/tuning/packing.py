"""Tool lists and requests as flat arrays.

A tool is read on its own, independently of its list, and a request sees itself and the tools it
calls; so a batch is a bag of short segments that attention never crosses, and tool lists cost nothing
for the second request that shares them. `ids` concatenates all tokens, tools first.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any

import numpy as np
from tokenizers import Tokenizer

from callmemaybe.tuning import token_forms
from callmemaybe.tuning.rendering import (
    AGAIN,
    ARGS,
    CALL,
    FILL,
    TOOL,
    USER,
    ChoiceKind,
    NumberText,
    Segment,
    completion,
    escape,
    to_json,
)

Calls = list[tuple[int, dict[str, Any]]]  # number of the tool in its list, arguments
CHOICES = list(ChoiceKind)
GRADED = frozenset(
    (ChoiceKind.VALUE, ChoiceKind.KEY, ChoiceKind.STOP)
)  # by the token; names are chosen whole


@dataclass(frozen=True, slots=True)
class Pair:
    """A request and the calls it means (none: nothing fits)."""

    prompt: str
    calls: Calls
    tag: str = ""


@dataclass(slots=True)
class Block:
    """The tools of a list, as definitions."""

    tools: list[dict[str, Any]]
    kind: str = ""


class Encoder:
    """Text to ids, with control tokens only where they are meant."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        self.tokenizer = tokenizer
        tokenizer.encode_special_tokens = True  # text that looks like a control token stays text
        self.text = lru_cache(200_000)(self._encode)

    def _encode(self, text: str) -> tuple[int, ...]:
        return tuple(self.tokenizer.encode(text, add_special_tokens=False).ids)

    def control(self, token: str) -> int:
        number = self.tokenizer.token_to_id(token)
        assert number is not None, token
        return int(number)

    def tool(self, text: str) -> list[int]:
        return [self.control(TOOL), *self._encode(text)]

    def request(self, prompt: str) -> tuple[list[int], int]:
        """The request twice, so that its first words know its last; and where it begins again."""
        said = self._encode(escape(prompt))
        ids = [self.control(USER), *said, self.control(AGAIN), *said, self.control(CALL)]
        return ids, 1 + len(said)

    def pieces(self, segments: list[Segment]) -> list[tuple[int, ...]]:
        return [(self.control(s.text),) if s.control else self.text(s.text) for s in segments]

    def marked(self, segment: Segment) -> list[tuple[int, bool]]:
        """The tokens of a form that its marks are about."""
        starts = [start for start, _ in self._spans(segment.text)]
        return [(bisect_right(starts, at) - 1, true) for at, true in segment.marks]

    @cached_property
    def bare(self) -> list[int]:
        """Every token without its leading space."""
        return [int(number) for number in token_forms.forms(self.tokenizer)[3]]

    def where(self, segment: Segment, said: list[int]) -> list[tuple[int, list[int]]]:
        """For the lines of a form, by the token that ends them: where in `said` their values begin.

        A list is where its first item is; values that do not occur literally are left out.
        """
        starts: list[int] = []
        found: list[tuple[int, list[int]]] = []
        for end, value in segment.lines:
            value = value[0] if isinstance(value, list) and value else value
            if isinstance(value, bool) or not isinstance(value, (str, int, float)):
                continue
            text = to_json(value)
            if isinstance(value, str) and not isinstance(value, NumberText):
                text = text[1:-1]
            ids = [self.bare[i] for i in self.text(text)]
            places = [
                at
                for at in range(len(said) - len(ids) + 1)
                if all(self.bare[said[at + n]] == i for n, i in enumerate(ids))
            ]
            if ids and places:
                starts = starts or [start for start, _ in self._spans(segment.text)]
                found.append((bisect_right(starts, end) - 1, places))
        return found

    def _spans(self, text: str) -> list[tuple[int, int]]:
        return list(self.tokenizer.encode(text, add_special_tokens=False).offsets)


@dataclass(slots=True)
class EncodedPair:
    """One request with its answer, as ids."""

    pair: Pair
    ids: list[int]
    again: int  # where the second reading begins
    owners: list[int]  # per token: 0, or 1 + the number of the call it belongs to
    choices: list[int]  # index into CHOICES of the token at this place
    arguments: list[int]  # number of the argument, 0 for none
    kinds: list[str]  # type of argument number n (from 1)
    calls: list[int]  # places of <|call|>
    forms: list[int]  # places that read the called tool's parameters again
    marks: list[tuple[int, bool]]  # places of the forms, and whether what they name is meant
    found: list[tuple[int, list[int]]]  # places that end a form's lines; where their values begin


@dataclass(slots=True)
class EncodedBlock:
    """A tool list and its requests."""

    block: Block
    tools: list[list[int]]
    pairs: list[EncodedPair]


def encode_pair(encoder: Encoder, block: Block, pair: Pair) -> EncodedPair:
    """Write one pair."""
    ids, again = encoder.request(pair.prompt)
    owners, choices, arguments = ([0] * len(ids) for _ in range(3))
    calls, kinds = [len(ids) - 1], []  # type: tuple[list[int], list[str]]
    forms: list[int] = []
    marks: list[tuple[int, bool]] = []
    found: list[tuple[int, list[int]]] = []
    segments = completion(pair.calls, block.tools, pair.prompt)
    owner, inside = 0, False
    for segment, piece in zip(segments, encoder.pieces(segments), strict=True):
        if segment.control:
            owner = len(calls) if segment.text in (ARGS, FILL) else 0
            if segment.text == CALL:
                calls.append(len(ids))
        if segment.text == ":" and segment.choice is ChoiceKind.FORCED:
            inside = False
        number = 0
        if segment.choice is ChoiceKind.VALUE and segment.kind:
            if not inside:
                kinds.append(segment.kind)
                inside = True
            number = len(kinds)
        if segment.kind == "form":
            marks += [(len(ids) + at, true) for at, true in encoder.marked(segment)]
            said = ids[again : calls[0]]
            found += [(len(ids) + at, begin) for at, begin in encoder.where(segment, said)]
            forms += range(len(ids), len(ids) + len(piece))
        ids += piece
        owners += [owner] * len(piece)
        choices += [CHOICES.index(segment.choice)] * len(piece)
        arguments += [number] * len(piece)
    return EncodedPair(
        pair, ids, again, owners, choices, arguments, kinds, calls, forms, marks, found
    )


@dataclass(slots=True)
class TokenBatch:
    """`rows` lists of tools with P requests each; N tokens in all, T tool lists of equal P."""

    rows: list[EncodedBlock]
    ids: np.ndarray  # int64 [N]
    positions: np.ndarray  # int64 [N]: within its segment
    segments: np.ndarray  # int64 [N]: number of the segment (tools first, then requests)
    tool_pad: np.ndarray  # int64 [tools, Lt]: flat places, -1 beyond the end
    pair_pad: np.ndarray  # int64 [pairs, Lp]
    pair_owner: np.ndarray  # int64 [pairs, Lp]
    seen_pad: np.ndarray  # int64 [pairs, Ls]: places of the tools that the answer calls
    seen_owner: np.ndarray  # int64 [pairs, Ls]
    again_pad: np.ndarray  # int64 [pairs, Lr]: places of the second reading
    list_pad: np.ndarray  # int64 [rows, Lb]: places of all tools of a row
    list_tool: np.ndarray  # int64 [rows, Lb]: number of the tool in its row, -1 beyond the end
    row_tools: np.ndarray  # int64 [rows, J]: number of the segment of each tool, -1 beyond the end
    calls: np.ndarray  # int64 [C]: places of <|call|>
    call_pair: np.ndarray  # int64 [C]
    call_right: np.ndarray  # int64 [C]: number of the right tool in its row, J for none
    graded: np.ndarray  # int64 [G]: places whose *next* token is graded
    graded_pair: np.ndarray  # int64 [G]
    graded_kind: np.ndarray  # int64 [G]: index into CHOICES
    graded_argument: np.ndarray  # int64 [G]
    form_pad: np.ndarray  # int64 [pairs, Lf]: places of the forms
    marks: np.ndarray  # int64 [M]: places in forms of which something is known
    marks_true: np.ndarray  # bool [M]
    found: np.ndarray  # int64 [F]: places that end a form's line
    found_pair: np.ndarray  # int64 [F]
    found_at: np.ndarray  # bool [F, Lr]: where in the second reading its value begins


def padded(lists: list[list[int]], least: int = 1) -> np.ndarray:
    width = max([least, *map(len, lists)])
    out = np.full((len(lists), width), -1, np.int64)
    for row, each in enumerate(lists):
        out[row, : len(each)] = each
    return out


class Stack:
    """Collects tool lists and requests into the arrays of a batch."""

    def __init__(self, width: int) -> None:
        """`width`: tools of the longest list; as a tool's number it means none."""
        self.width = width
        self.ids: list[int] = []
        self.positions: list[int] = []
        self.segments: list[int] = []
        self.count = 0  # of segments
        self.tools: list[list[int]] = []  # places
        self.row_tools: list[list[int]] = []
        self.pairs: list[list[int]] = []
        self.owners: list[list[int]] = []
        self.again: list[list[int]] = []
        self.forms: list[list[int]] = []
        self.seen: list[list[int]] = []
        self.seen_owner: list[list[int]] = []
        self.marks: list[tuple[int, bool]] = []
        self.found: list[tuple[int, int, list[int]]] = []
        self.calls: list[tuple[int, int, int]] = []
        self.graded: list[tuple[int, int, int, int]] = []

    def add(self, piece: list[int]) -> list[int]:
        """Append a segment; returns its places."""
        at = len(self.ids)
        self.ids += piece
        self.positions += range(len(piece))
        self.segments += [self.count] * len(piece)
        self.count += 1
        return list(range(at, at + len(piece)))

    def add_tools(self, tools: list[list[int]]) -> None:
        """Append a tool list."""
        begin = len(self.tools)
        self.tools += [self.add(each) for each in tools]
        self.row_tools.append(list(range(begin, len(self.tools))))

    def add_pair(self, placed: EncodedPair, tools: list[int]) -> None:
        """Append a request; `tools`: the numbers of those in its list."""
        index = len(self.pairs)
        places = self.add(placed.ids)
        self.pairs.append(places)
        self.owners.append(placed.owners)
        self.again.append(places[placed.again : placed.calls[0]])
        self.forms.append([places[p] for p in placed.forms])
        self.marks += [(places[p], true) for p, true in placed.marks]
        self.found += [(places[p], index, begin) for p, begin in placed.found]
        called = [i for i, _ in placed.pair.calls]
        chosen = [self.tools[tools[i]] for i in called]
        self.seen.append([p for each in chosen for p in each])
        self.seen_owner.append([n for n, each in enumerate(chosen, 1) for _ in each])
        right = zip(placed.calls, called or [self.width], strict=True)
        self.calls += [(places[c], index, r) for c, r in right]
        self.graded += [(places[p] - 1, index, kind, number) for p, kind, number in graded(placed)]

    def batch(self, rows: list[EncodedBlock]) -> TokenBatch:
        """All of it as arrays."""
        calls = np.array(self.calls, np.int64).reshape(-1, 3)
        graded = np.array(self.graded, np.int64).reshape(-1, 4)
        again_pad = padded(self.again)
        found_at = np.zeros((len(self.found), again_pad.shape[1]), bool)
        for line, (_, _, begin) in enumerate(self.found):
            found_at[line, begin] = True
        lists = [[p for t in each for p in self.tools[t]] for each in self.row_tools]
        numbers = [
            [n for n, t in enumerate(each) for _ in self.tools[t]] for each in self.row_tools
        ]
        return TokenBatch(
            rows=rows,
            ids=np.array(self.ids, np.int64),
            positions=np.array(self.positions, np.int64),
            segments=np.array(self.segments, np.int64),
            tool_pad=padded(self.tools),
            pair_pad=padded(self.pairs),
            pair_owner=np.maximum(padded(self.owners), 0),
            seen_pad=padded(self.seen),
            seen_owner=padded(self.seen_owner),
            again_pad=again_pad,
            list_pad=padded(lists),
            list_tool=padded(numbers),
            row_tools=padded(self.row_tools),
            calls=calls[:, 0],
            call_pair=calls[:, 1],
            call_right=calls[:, 2],
            graded=graded[:, 0],
            graded_pair=graded[:, 1],
            graded_kind=graded[:, 2],
            graded_argument=graded[:, 3],
            form_pad=padded(self.forms),
            marks=np.array([p for p, _ in self.marks], np.int64),
            marks_true=np.array([true for _, true in self.marks], bool),
            found=np.array([p for p, _, _ in self.found], np.int64),
            found_pair=np.array([index for _, index, _ in self.found], np.int64),
            found_at=found_at,
        )


def stack(rows: list[EncodedBlock]) -> TokenBatch:
    """Put rows together; every row has the same number of requests."""
    made = Stack(max(len(row.tools) for row in rows))
    for row in rows:
        made.add_tools(row.tools)
    for row, tools in zip(rows, made.row_tools, strict=True):
        for placed in row.pairs:
            made.add_pair(placed, tools)
    return made.batch(rows)


def graded(placed: EncodedPair) -> Iterator[tuple[int, int, int]]:
    """What is chosen token by token: place, index into CHOICES, number of the argument."""
    kinds = {CHOICES.index(choice) for choice in GRADED}
    for at, token in enumerate(zip(placed.choices, placed.arguments, strict=True)):
        if token[0] in kinds and at > placed.calls[0] + 1 and not _ends_name(placed, at):
            yield at, *token


def _ends_name(placed: EncodedPair, at: int) -> bool:
    """Whether a STOP is `<|args|>`: the end of a name is decided with the name."""
    return placed.owners[at] > 0 and placed.owners[at - 1] == 0
