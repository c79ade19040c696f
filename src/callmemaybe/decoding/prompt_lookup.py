"""Prompt lookup: draft how an output goes on from the request, at no risk.

What a call contains was mostly written in the request: names, numbers, quoted text. So a value that
begins like something in the request probably goes on like it; a number is probably the next one that the
request mentions, a text its next quotation, code or name; and after a value the grammar often allows
few ways on. The draft goes through the model together with what must be fed anyway. The decoder then
decides token by token as if there were no draft, and only looks up its logits. A wrong draft costs
arithmetic, never a different output. (Prompt lookup decoding, Saxena 2023: speculative decoding with the
prompt as the draft model.) What each kind of draft saves is measured in docs/ideas/decoding.md.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from functools import cached_property
from itertools import chain, islice

from callmemaybe.grammar.automaton import DEAD, Automaton
from callmemaybe.grammar.grammar import bytes_of

#: The most bytes of a draft, the most values it may span, and the bytes of output it looks back at.
MAX_BYTES, MAX_VALUES, MAX_BACK = 96, 6, 200
#: With more alternatives (keys, or values of an enumeration) than this, none is drafted.
MAX_ALTERNATIVES = 8
#: Words of a request that alternatives are compared with, and the letters of each that count.
MAX_WORDS, STEM = 100, 4
_NUMBER = re.compile(rb"(?<![\w.:])-?(?:\d{1,3}(?:,\d{3})+(?![\d,])|\d+)(?!\d|:\d)(?:\.\d+)?")
#: No quotation holds what opens one like it, so none is searched twice for its end.
_QUOTED = re.compile(
    r"(?<!\w)'((?:[^'\\]|\\.)+)'(?!\w)|\\\"((?:[^\"\\]|\\[^\"])+?)\\\"|`([^`]+)`"
    r"|[“„]([^“”„]+)[“”]|‘([^‘]+?)’(?!\w)|«\s?([^«»]+?)\s?»",
    re.ASCII,
)
_WORD = re.compile(rb"(?:[^\s,;:?!()]|:(?=[^\s,;:?!()]))*")
#: What follows a complete value: the end, or punctuation with no more of a word after it.
_VALUE_END = re.compile(rb"[.?!,;:)]*(?:\s|\Z)")
#: An identifier, date, time, address or path: it holds a digit, or a sign inside.
_CODE = re.compile(
    rb"(?<!\S)[(\[]?((?=[^\s,;?!]{0,80}[A-Za-z])"
    rb"[^\s,;?!()\[\]]{0,80}[\d@/\\._#][^\s,;?!()\[\]]{0,80}\w"
    rb"|\d+(?:[:/-]\d+)+(?: ?[AaPp]\.?[Mm]\b)?|\d{1,2} ?[AaPp]\.?[Mm]\b)"
)
#: Words that begin with a capital (or a byte of another alphabet), side by side.
_CAPITAL = rb"[A-Z\xc3-\xf4][^\s,;:?!().\"\[\]]*"
_NAME = re.compile(rb"(?<![\w'])%s(?: %s)*" % (_CAPITAL, _CAPITAL))
_REST_OF_NAME = re.compile(rb"(?: %s)+" % _CAPITAL)
_SENTENCE_ENDS = b".?!:;\n"
_WORDS = re.compile(rb"[^\W\d_]{2,}")
_PARTS = re.compile(rb"[A-Z]?[a-z]{2,}|[A-Z]{3,}")  # words of a key: `dueDate`, `due_date`
_LITERALS = (b"true", b"false", b"null")
_DIGITS, _LETTERS = b"0123456789", b"abcxyzABCXYZ"
_QUOTE, _LIST_END = b'"]'
_AFTER_TEXT = (b",", b":", b"]", b"}")  # what follows a quote that ends a text
_BEFORE_BARE = (b"[", b"{", b",", b":", b"\n")  # what stands before a value without quotes


class PromptLookupDrafter:
    """Drafts from one request; it has no other state, so it may serve any number of decoders."""

    def __init__(self, request: str) -> None:
        # As the inside of a JSON string, which is how an output would quote it.
        text = json.dumps(request, ensure_ascii=False)[1:-1]
        self.source = text.encode(errors="replace")
        self._numbers = [found[0].replace(b",", b"") for found in _NUMBER.finditer(self.source)]
        self._quotations = [
            next(group for group in found.groups() if group is not None).encode(errors="replace")
            for found in _QUOTED.finditer(text)
        ]

    def guess(self, automaton: Automaton, state: int, text: bytes) -> bytes:
        """Return bytes that may come next, all of them in the language; empty where nothing fits.

        ``text`` is the output so far, at whose end the automaton is in ``state``.
        """
        draft = b""
        for _ in range(MAX_VALUES):
            run, state = automaton.forced(state)
            draft += run
            value = self._value(automaton, state, text + draft)
            taken = 0
            for byte in value:
                after = automaton.step(state, byte)
                if after == DEAD:
                    break
                state, taken = after, taken + 1
            draft += value[:taken]
            if taken < len(value) or not value or len(draft) >= MAX_BYTES:
                break
        return draft[:MAX_BYTES]

    @cached_property
    def _mentions(self) -> list[bytes]:
        """The codes and names of the request, in order."""
        found = {
            match.start(1): match[1].rstrip(b".'\"\\") for match in _CODE.finditer(self.source)
        }
        for match in _NAME.finditer(self.source):
            before = self.source[max(0, match.start() - 9) : match.start()].rstrip()
            if before and before[-1] not in _SENTENCE_ENDS:
                found.setdefault(match.start(), match[0].rstrip(b"'\\"))
        return [found[at] for at in sorted(found) if found[at]]

    def _value(self, automaton: Automaton, state: int, text: bytes) -> bytes:
        """Draft the rest of the value at the end of ``text``, and what closes it if it is complete."""
        begun, is_text = _begun_value(text)
        if begun:
            rest, is_complete = self._rest_of_text(begun) if is_text else self._rest_of_bare(begun)
            if is_text and not rest:
                rest, is_complete = self._alternative(automaton, state), True
        else:
            rest, is_complete = self._new_value(automaton, state, text)
        if not is_complete or len(rest) >= MAX_BYTES:
            return rest[:MAX_BYTES]
        after = automaton.walk(state, rest) if rest else state
        if after == DEAD:
            return rest
        return rest + self._closing(automaton, after, text + rest)

    def _closing(self, automaton: Automaton, state: int, text: bytes) -> bytes:
        """Draft what follows a value: a list ends when the request has nothing more to put into it."""
        order = b'"}],'
        if automaton.step(state, _LIST_END) != DEAD and self._has_unused(text):
            order = b'"},]'
        for closing in order:
            if automaton.step(state, closing) != DEAD:
                return bytes([closing])
        return b""

    def _has_unused(self, text: bytes) -> bool:
        """Whether the request mentions a value, like the one at the end of ``text``, not yet in it."""
        if text.endswith(b'"'):
            return any(one not in text for one in chain(self._quotations, self._mentions))
        return not text.endswith(_LITERALS) and any(one not in text for one in self._numbers)

    def _rest_of_bare(self, begun: bytes) -> tuple[bytes, bool]:
        """Draft how a number or literal goes on, and whether it is complete then."""
        if begun in _LITERALS:
            return b"", True
        for number in self._numbers:
            if number.startswith(begun):
                return number[len(begun) :], True
        return self._rest_of_text(begun)

    def _rest_of_text(self, begun: bytes) -> tuple[bytes, bool]:
        """Draft how a text goes on that begins with ``begun``, and whether it is complete then."""
        for quotation in self._quotations:
            if quotation.startswith(begun):
                return quotation[len(begun) :], True
        at = self.source.find(begun)
        while at > 0 and _is_inside_word(self.source, at):
            at = self.source.find(begun, at + 1)
        if at < 0:
            return b"", False
        end = at + len(begun)
        word = _WORD.match(self.source, end)
        assert word is not None
        rest = word[0]
        if begun[:1].isupper() and (more := _REST_OF_NAME.match(self.source, end + len(rest))):
            rest += more[0]
        rest = rest.rstrip(b".'\"\\")
        is_complete = _VALUE_END.match(self.source, end + len(rest)) is not None
        return rest, is_complete

    def _new_value(self, automaton: Automaton, state: int, text: bytes) -> tuple[bytes, bool]:
        """Draft a value that has not begun: a quotation, code or name, an alternative, or a number."""
        if not text.endswith(b'"'):
            return self._new_number(automaton, state, text)
        if any(automaton.step(state, byte) == DEAD for byte in (*_LETTERS, *_DIGITS)):
            return self._alternative(automaton, state), True
        mentions = chain(self._quotations, self._mentions)
        draft = next((one for one in mentions if one not in text), b"")
        return draft, bool(draft)

    def _alternative(self, automaton: Automaton, state: int) -> bytes:
        """Draft the alternative (a key, an enumerated value) that shares most words with the request."""
        return max(
            _alternatives(automaton, state),
            key=lambda one: len(_word_stems(_PARTS.finditer(one)) & self._stems),
            default=b"",
        )

    @cached_property
    def _stems(self) -> set[bytes]:
        """How the words of the request begin."""
        return _word_stems(islice(_WORDS.finditer(self.source), MAX_WORDS))

    def _new_number(self, automaton: Automaton, state: int, text: bytes) -> tuple[bytes, bool]:
        """Draft the first number of the request that is not in ``text``, where a number may come."""
        number = next((one for one in self._numbers if one not in text), b"")
        if not number:
            return b"", False  # before the automaton is asked, which takes longer
        dead = (automaton.step(state, byte) == DEAD for byte in (*_LETTERS, *_DIGITS))
        is_number = all(islice(dead, len(_LETTERS))) and not all(dead)
        return (number, True) if is_number else (b"", False)


def _alternatives(automaton: Automaton, state: int) -> list[bytes]:
    """Return the texts that may come next, up to their closing quote; none if they are many."""
    found: list[bytes] = []
    begun = [(b"", state)]
    while begun:
        text, state = begun.pop()
        first = automaton.first_bytes(state)
        if len(found) + len(begun) + first.bit_count() > MAX_ALTERNATIVES:
            return []
        for byte in bytes_of(first):
            run, after = automaton.forced(automaton.step(state, byte))
            longer = text + bytes([byte]) + run[:MAX_BYTES]
            if _QUOTE in longer or len(longer) > MAX_BYTES:
                found.append(longer.partition(b'"')[0])
            else:
                begun.append((longer, after))
    return found


def _word_stems(words: Iterable[re.Match[bytes]]) -> set[bytes]:
    return {word[0].lower()[:STEM] for word in words}


def _begun_value(text: bytes) -> tuple[bytes, bool]:
    """Return the begun value at the end of an unfinished JSON text, and whether it is a string."""
    tail = text[-MAX_BACK:]
    at = len(tail)
    while (at := tail.rfind(b'"', 0, at)) >= 0:
        stem = tail[:at].rstrip(b"\\")
        if (at - len(stem)) % 2 == 0:  # a quote that no backslash escapes
            if tail[at + 1 : at + 2] not in _AFTER_TEXT:
                return tail[at + 1 :], True
            break
    at = max(tail.rfind(byte) for byte in _BEFORE_BARE)
    return tail[at + 1 :].lstrip(b" "), False


def _is_inside_word(source: bytes, at: int) -> bool:
    """Whether ``at`` is not where a word begins."""
    return source[at - 1 : at].isalnum() and source[at : at + 1].isalnum()
