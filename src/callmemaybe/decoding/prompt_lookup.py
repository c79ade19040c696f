"""Copy speculation: guess how an answer goes on from the request, at no risk.

What a call says was mostly said in the request: names, numbers, quoted text. So a value that begins
like something in the request probably goes on like it, a number probably is the next one that the
request mentions, a text its next quotation, code or name, a list its next number, a choice or a key one of its words, and behind
a value the grammar often has only one way on, or few. The guess goes
through the model together with what must go through anyway; the decoder then decides token by token
as if there had been no guess, and looks up what it asks for. A wrong guess costs arithmetic,
never a different answer. (Known as prompt lookup decoding, Saxena 2023; speculative decoding with
the prompt as the draft model.)
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from functools import cached_property
from itertools import chain, islice

from callmemaybe.grammar.automaton import DEAD, Automaton

#: Bytes guessed ahead at most, and how many values that may span.
_FARTHEST, _MOST_VALUES = 96, 6
_MOST_WORDS = 100  # of a request, that choices are compared with
_NUMBER = re.compile(rb"(?<![\w.:])-?(?:\d{1,3}(?:,\d{3})+(?![\d,])|\d+)(?!\d|:\d)(?:\.\d+)?")
#: No quotation holds what opens one like it, so none is looked through twice for its end.
_QUOTED = re.compile(
    r"(?<!\w)'((?:[^'\\]|\\.)+)'(?!\w)|\\\"((?:[^\"\\]|\\[^\"])+?)\\\"|`([^`]+)`"
    r"|[“„]([^“”„]+)[“”]|‘([^‘]+?)’(?!\w)|«\s?([^«»]+?)\s?»",
    re.ASCII,
)
_WORD = re.compile(rb"(?:[^\s,;:?!()]|:(?=[^\s,;:?!()]))*")
#: What stands behind a value that is over: the end, or punctuation with no more of a word behind it.
_OVER = re.compile(rb"[.?!,;:)]*(?:\s|\Z)")
#: What is no word of a language: it holds a digit, or a sign inside.
_CODE = re.compile(
    rb"(?<!\S)[(\[]?((?=[^\s,;?!]{0,80}[A-Za-z])"
    rb"[^\s,;?!()\[\]]{0,80}[\d@/\\._#][^\s,;?!()\[\]]{0,80}\w"
    rb"|\d+(?:[:/-]\d+)+(?: ?[AaPp]\.?[Mm]\b)?|\d{1,2} ?[AaPp]\.?[Mm]\b)"
)
#: Words that begin with a capital (or a byte of another alphabet), side by side.
_CAPITAL = rb"[A-Z\xc3-\xf4][^\s,;:?!().\"\[\]]*"
_NAME = re.compile(rb"(?<![\w'])%s(?: %s)*" % (_CAPITAL, _CAPITAL))
_MORE_NAME = re.compile(rb"(?: %s)+" % _CAPITAL)
_ENDS_SENTENCE = b".?!:;\n"
_WORDS = re.compile(rb"[^\W\d_]{2,}")
_DENIES = re.compile(rb"(?i)\b(?:no|not|never|without|off|\w+n(?:'|\xe2\x80\x99)t)\b")
_LITERALS = (b"true", b"false", b"null")
_DIGITS, _LETTERS = b"0123456789", b"abcxyzABCXYZ"
_QUOTE, _LIST_END = b'"]'
_ITEMS = re.compile(rb"\[((?:-?\d[\d.]*, ?)+)\Z")
_MOST_NUMBERS = 200  # of a request, that lists are compared with
_MOST_WAYS, _STEM = 8, 4  # keys or choices that are compared, and letters that tell a word
_PARTS = re.compile(rb"[A-Z]?[a-z]{2,}|[A-Z]{3,}")  # words of a key: `dueDate`, `due_date`
_SEEN = 200  # bytes of an answer that are looked back at
_BEHIND_TEXT = (b",", b":", b"]", b"}")  # what follows a quote that ends a text
_BEFORE_BARE = (b"[", b"{", b",", b":", b"\n")


class PromptLookupDrafter:
    """Guesses from one request; holds nothing else, so one serves any number of decoders."""

    def __init__(self, request: str) -> None:
        # As the inside of a JSON string, which is how an answer would quote it.
        text = json.dumps(request, ensure_ascii=False)[1:-1]
        self.source = text.encode(errors="replace")
        self._numbers = [found[0].replace(b",", b"") for found in _NUMBER.finditer(self.source)]
        self._spans = [
            next(group for group in found.groups() if group is not None).encode(errors="replace")
            for found in _QUOTED.finditer(text)
        ]

    def guess(self, automaton: Automaton, state: int, text: bytes) -> bytes:
        """Return bytes that may come next, all of them in the language; empty for no idea.

        ``text`` is the answer so far, at whose end the automaton is in ``state``.
        """
        more = b""
        for _ in range(_MOST_VALUES):
            run, state = automaton.forced(state)
            more += run
            part = self._value(automaton, state, text + more)
            taken = 0
            for byte in part:
                after = automaton.step(state, byte)
                if after == DEAD:
                    break
                state, taken = after, taken + 1
            more += part[:taken]
            if taken < len(part) or not part or len(more) >= _FARTHEST:
                break
        return more[:_FARTHEST]

    @cached_property
    def _said(self) -> list[bytes]:
        """What a text may be if nothing is quoted: codes and names, as they come."""
        found = {
            match.start(1): match[1].rstrip(b".'\"\\") for match in _CODE.finditer(self.source)
        }
        for match in _NAME.finditer(self.source):
            before = self.source[max(0, match.start() - 9) : match.start()].rstrip()
            if before and before[-1] not in _ENDS_SENTENCE:
                found.setdefault(match.start(), match[0].rstrip(b"'\\"))
        return [found[at] for at in sorted(found) if found[at]]

    @cached_property
    def _words(self) -> list[bytes]:
        """The request's words in the spellings that choices have: `dark`, `Dark`, `DARK`."""
        some = islice(_WORDS.finditer(self.source), _MOST_WORDS)
        words = dict.fromkeys(match[0] for match in some)
        spelled = (
            form for word in words for form in (word, word.lower(), word.capitalize(), word.upper())
        )
        return list(dict.fromkeys(spelled))

    def _value(self, automaton: Automaton, state: int, text: bytes) -> bytes:
        """Guess the rest of the value at the end of ``text``, with its closing if it is over."""
        begun, is_text = _begun(text)
        if begun:
            rest, is_over = self._rest(begun) if is_text else self._rest_bare(begun, text)
            if is_text and not rest:
                rest, is_over = self._way(automaton, state, text), True
        else:
            rest, is_over = self._fresh(automaton, state, text)
        if not is_over or len(rest) >= _FARTHEST:
            return rest[:_FARTHEST]
        after = automaton.walk(state, rest) if rest else state
        if after == DEAD:
            return rest
        return rest + self._closing(automaton, after, text + rest)

    def _closing(self, automaton: Automaton, state: int, text: bytes) -> bytes:
        """Guess what stands behind a value: a list ends when nothing is left to put into it."""
        order = b'"}],'
        if automaton.step(state, _LIST_END) != DEAD and self._has_more(text):
            order = b'"},]'
        for closing in order:
            if automaton.step(state, closing) != DEAD:
                return bytes([closing])
        return b""

    def _has_more(self, text: bytes) -> bool:
        """Whether the request names another value like the one at the end of ``text``."""
        if text.endswith(b'"'):
            return any(one not in text for one in chain(self._spans, self._said))
        if text.endswith(_LITERALS):
            return False
        if self._following(text + b","):
            return True
        return any(one not in text for one in self._numbers)

    def _rest_bare(self, begun: bytes, text: bytes) -> tuple[bytes, bool]:
        """Guess how a value goes on that is no text, and whether it is over then."""
        if begun in _LITERALS:
            return b"", True
        following = self._following(text[: len(text) - len(begun)])
        for number in chain(following, self._numbers):
            if number.startswith(begun):
                return number[len(begun) :], True
        return self._rest(begun)

    def _following(self, text: bytes) -> list[bytes]:
        """Return the number that follows in the request those of the list at the end of ``text``, if one does."""
        match = _ITEMS.search(text[-_SEEN:])
        if not match:
            return []
        items = match[1].replace(b" ", b"").split(b",")[:-1]
        some = self._numbers[:_MOST_NUMBERS]
        begins = range(len(some) - len(items))
        return [some[at + len(items)] for at in begins if some[at : at + len(items)] == items][:1]

    def _rest(self, begun: bytes) -> tuple[bytes, bool]:
        """Guess how a text goes on that begins with ``begun``, and whether it is over then."""
        for span in self._spans:
            if span.startswith(begun):
                return span[len(begun) :], True
        at = self.source.find(begun)
        while at > 0 and _is_inside_word(self.source, at):
            at = self.source.find(begun, at + 1)
        if at < 0:
            return b"", False
        end = at + len(begun)
        word = _WORD.match(self.source, end)
        assert word is not None
        rest = word[0]
        if begun[:1].isupper() and (more := _MORE_NAME.match(self.source, end + len(rest))):
            rest += more[0]
        rest = rest.rstrip(b".'\"\\")
        behind = end + len(rest)
        if not rest and not _OVER.match(self.source, behind):
            return b"", False
        return rest, _OVER.match(self.source, behind) is not None

    def _fresh(self, automaton: Automaton, state: int, text: bytes) -> tuple[bytes, bool]:
        """Guess a value that has not begun: the next number or quotation, a name, a choice that is named."""
        if not text.endswith(b'"'):
            return self._fresh_bare(automaton, state, text)
        if any(automaton.step(state, byte) == DEAD for byte in (*_LETTERS, *_DIGITS)):
            return self._choice(automaton, state) or self._way(automaton, state, text), True
        said = chain(self._spans, self._said)
        candidate = next((one for one in said if one not in text), b"")
        return candidate, bool(candidate)

    def _fresh_bare(self, automaton: Automaton, state: int, text: bytes) -> tuple[bytes, bool]:
        """Guess a value that is no text: a number, or true or false."""
        if automaton.step(state, _LITERALS[0][0]) != DEAD:
            if automaton.walk(state, _LITERALS[0]) == DEAD:
                return b"", False
            return _LITERALS[bool(_DENIES.search(self.source))], True
        unsaid = (one for one in self._numbers if one not in text)
        candidate = next(chain(self._following(text), unsaid), b"")
        if not candidate:
            return b"", False  # before the automaton is asked, which takes longer
        dead = (automaton.step(state, byte) == DEAD for byte in (*_LETTERS, *_DIGITS))
        is_number = all(islice(dead, len(_LETTERS))) and not all(dead)
        return (candidate, True) if is_number else (b"", False)

    @cached_property
    def _stems(self) -> set[bytes]:
        """How the request's words begin."""
        return {
            match[0].lower()[:_STEM] for match in islice(_WORDS.finditer(self.source), _MOST_WORDS)
        }

    def _way(self, automaton: Automaton, state: int, text: bytes) -> bytes:
        """Return the likeliest of a few ways on: one with a word of the request, else the one that ``text`` names first."""
        ways = _ways(automaton, state)
        if not ways:
            return b""

        def rank(way: bytes) -> tuple[int, int]:
            parts = {part[0].lower()[:_STEM] for part in _PARTS.finditer(way)}
            at = text.find(way)
            return -len(parts & self._stems), at if at >= 0 else len(text)

        return min(ways, key=rank)

    def _choice(self, automaton: Automaton, state: int) -> bytes:
        """Return the first of the request's words that is one of a few texts; empty if none is."""
        for word in self._words:
            after = automaton.walk(state, word)
            if after != DEAD and automaton.step(after, _QUOTE) != DEAD:
                return word
        return b""


def _ways(automaton: Automaton, state: int, most: int = _MOST_WAYS) -> list[bytes]:
    """Return the texts that may come next up to their closing quote if there are few, else nothing."""
    found: list[bytes] = []
    begun = [(b"", state)]
    while begun:
        text, state = begun.pop()
        some = automaton.first_bytes(state)
        if len(found) + len(begun) + some.bit_count() > most:
            return []
        for byte in _bytes_of(some):
            run, after = automaton.forced(automaton.step(state, byte))
            longer = text + bytes([byte]) + run[:_FARTHEST]
            if _QUOTE in longer or len(longer) > _FARTHEST:
                found.append(longer.partition(b'"')[0])
            else:
                begun.append((longer, after))
    return found


def _bytes_of(some: int) -> Iterator[int]:
    """Yield the numbers of the bits that are set."""
    while some:
        low = some & -some
        yield low.bit_length() - 1
        some ^= low


def _begun(text: bytes) -> tuple[bytes, bool]:
    """Return what there is of the value at the end of an unfinished JSON text, and whether it is a text."""
    tail = text[-_SEEN:]
    at = len(tail)
    while (at := tail.rfind(b'"', 0, at)) >= 0:
        stem = tail[:at].rstrip(b"\\")
        if (at - len(stem)) % 2 == 0:  # a quote that no backslash escapes
            if tail[at + 1 : at + 2] not in _BEHIND_TEXT:
                return tail[at + 1 :], True
            break
    at = max(tail.rfind(byte) for byte in _BEFORE_BARE)
    return tail[at + 1 :].lstrip(b" "), False


def _is_inside_word(source: bytes, at: int) -> bool:
    """Whether ``at`` is not where a word begins."""
    return source[at - 1 : at].isalnum() and source[at : at + 1].isalnum()
