"""Copy speculation: guess how an answer goes on from the request, at no risk.

What a call says was mostly said in the request: names, numbers, quoted text. So a value that begins
like something in the request probably goes on like it, a number probably is the next one that the
request mentions, and behind a value the grammar often has only one way on. The guess goes
through the model together with what must go through anyway; the decoder then decides token by token
as if there had been no guess, and looks up what it asks for. A wrong guess costs arithmetic,
never a different answer. (Known as prompt lookup decoding, Saxena 2023; speculative decoding with
the prompt as the draft model.)
"""

from __future__ import annotations

import json
import re
from itertools import islice

from callmemaybe.grammar.automaton import DEAD, Automaton

#: Bytes guessed ahead at most, and how many values that may span.
_FARTHEST, _MOST_VALUES = 96, 6
_NUMBER = re.compile(rb"(?<![\w.])-?\d+(?:\.\d+)?")
_QUOTED = re.compile(
    rb"(?<!\w)'([^'\\]+)'(?!\w)|\\\"((?:[^\"\\]|\\[^\"])+?)\\\"|`([^`]+)`"
    rb"|\xe2\x80[\x9c\x9e](.+?)\xe2\x80[\x9c\x9d]|\xe2\x80\x98(.+?)\xe2\x80\x99(?!\w)"
    rb"|\xc2\xab\s?(.+?)\s?\xc2\xbb"
)
_WORD = re.compile(rb"[^\s,;:?!()]*")
#: What stands behind a value that is over: the end, or punctuation with no more of a word behind it.
_OVER = re.compile(rb"[.?!,;:)]*(?:\s|\Z)")
_DIGITS, _LETTERS = b"0123456789", b"abcxyzABCXYZ"
_CLOSING = b'"},]'


class Copier:
    """Guesses from one request; holds nothing else, so one serves any number of decoders."""

    def __init__(self, request: str) -> None:
        # As the inside of a JSON string, which is how an answer would quote it.
        text = json.dumps(request, ensure_ascii=False)[1:-1]
        self.source = text.encode(errors="replace")
        self._numbers = [found[0] for found in _NUMBER.finditer(self.source)]
        self._spans = [
            next(group for group in found.groups() if group is not None)
            for found in _QUOTED.finditer(self.source)
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

    def _value(self, automaton: Automaton, state: int, text: bytes) -> bytes:
        """Guess the rest of the value at the end of ``text``, with its closing if it is over."""
        begun = _begun(text)
        if begun:
            rest, is_over = self._rest(begun)
        else:
            rest, is_over = self._fresh(automaton, state, text)
        if not is_over:
            return rest
        after = automaton.walk(state, rest) if rest else state
        if after == DEAD:
            return rest
        for closing in _CLOSING:
            if automaton.step(after, closing) != DEAD:
                return rest + bytes([closing])
        return rest

    def _rest(self, begun: bytes) -> tuple[bytes, bool]:
        """Guess how a value goes on that begins with ``begun``, and whether it is over then."""
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
        rest = word[0].rstrip(b".'\"\\")
        behind = end + len(rest)
        if not rest and not _OVER.match(self.source, behind):
            return b"", False
        return rest, _OVER.match(self.source, behind) is not None

    def _fresh(self, automaton: Automaton, state: int, text: bytes) -> tuple[bytes, bool]:
        """Guess a value that has not begun: the next number, or the next quotation."""
        candidates = self._spans if text.endswith(b'"') else self._numbers
        candidate = next((one for one in candidates if one not in text), b"")
        if not candidate:
            return b"", False  # before the automaton is asked, which takes longer
        dead = (automaton.step(state, byte) == DEAD for byte in (*_LETTERS, *_DIGITS))
        if candidates is self._spans:
            return (b"", False) if any(dead) else (candidate, True)
        is_number = all(islice(dead, len(_LETTERS))) and not all(dead)
        return (candidate, True) if is_number else (b"", False)


def _begun(text: bytes) -> bytes:
    """Return what there is of the value at the end of an unfinished JSON text."""
    tail = text[-200:]
    at = len(tail)
    while at and tail[at - 1] not in b'"[{,:' + b"\n":
        at -= 1
    return tail[at:].lstrip(b" ") if at and tail[at - 1] != 0x22 else tail[at:]


def _is_inside_word(source: bytes, at: int) -> bool:
    """Whether ``at`` is not where a word begins."""
    return source[at - 1 : at].isalnum() and source[at : at + 1].isalnum()
