"""Canonical forcing: what must come next, in the tokens that the tokenizer itself would produce.

The automaton knows the run of bytes that must come next. Which tokens they become depends on what was
emitted before and on what may follow, because a token may reach over either end of the run:

- before: the run is encoded together with the last emitted tokens, and is used only if those come out
  as they were emitted (a contiguous part of a byte-pair encoding is itself the encoding of its
  bytes, so it is enough to go back to a place where the tokenizer splits the text first);
- after: if the tokenizer, given more text, put a token over the end of the run, that token would
  begin at a byte from which the rest of the run is a proper prefix of a token that the grammar lets
  go on. The text before that byte would then be encoded on its own. So a token is safe if it is the
  same in the encoding of the run and of all those shorter texts.

See also llguidance's docs/fast_forward.md.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from itertools import accumulate

from callmemaybe.errors import VocabularyError
from callmemaybe.grammar.automaton import NO_CONTROLS, Automaton
from callmemaybe.matching.cache import AutomatonTables, VocabularyTables
from callmemaybe.vocabulary import Vocabulary

#: At most so many emitted tokens are encoded again, together with the run.
MAX_TOKENS_BACK = 64
#: So many tokens before a crossing (see above) are encoded again, up to it.
TOKENS_BACK = 4
#: ASCII letters and digits.
WORD = frozenset(b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz")
#: One of them: tokenizers do not split in front of it.
WORD_BYTE = 0x61
ENCODING_CACHE_SIZE = 8192
FORCED_CACHE_SIZE = 4096
OVERLAP_CACHE_SIZE = 4096
#: From so many last bytes on, overlaps are not cached.
MAX_OVERLAP = 48


def forced(
    tables: VocabularyTables,
    cached: AutomatonTables,
    vocabulary: Vocabulary,
    automaton: Automaton,
    state: int,
    emitted: Sequence[int],
) -> tuple[int, ...]:
    """Return the ids that must come next, whatever is chosen later; maybe none.

    ``emitted`` are the ids so far, of which the last few matter.
    """
    run, after = automaton.forced(state)
    # The bytes that may come after the run.
    edges = automaton.first_bytes(after)
    if _is_open(tables, run, edges) if run else edges or not _control_only(automaton, state):
        cached.unforced.add(state)
        return ()
    tail = _tail(vocabulary, emitted)
    known = cached.forced
    key = (state, tail)
    found = known.get(key)
    if found is None:
        if len(known) >= FORCED_CACHE_SIZE:
            known.clear()
        found = known[key] = _forced(tables, vocabulary, automaton, run, after, edges, tail)
    return found


def _is_open(tables: VocabularyTables, run: bytes, after: int) -> bool:
    """Whether a token may begin with the whole run and go on: nothing is forced, whatever came before."""
    if run[-1] >= 0x80 or not after:
        return False
    overlaps = _overlaps(tables, run, after)
    return bool(overlaps) and overlaps[-1] == len(run)


def _control_only(automaton: Automaton, state: int) -> bool:
    """Whether one control token must come next, where no bytes may."""
    return not automaton.is_accepting(state) and len(automaton.controls(state)) == 1


def _tail(vocabulary: Vocabulary, emitted: Sequence[int]) -> tuple[int, ...]:
    """Return the last tokens, back to where the tokenizer surely splits the text before merging.

    That is after a control token, or between a letter or digit and a sign or space (not an
    apostrophe: contractions). After MAX_TOKENS_BACK tokens, the start of any character is taken.
    """
    tokens = vocabulary.tokens
    start = end = len(emitted)
    here = WORD_BYTE
    while start > 0 and (previous := tokens[emitted[start - 1]]):
        if here < 0x80 and here != 0x27 and here not in WORD and previous[-1] in WORD:
            break
        if end - start >= MAX_TOKENS_BACK and here & 0xC0 != 0x80:
            break
        here = previous[0]
        start -= 1
    return tuple(emitted[start:])


def _forced(
    tables: VocabularyTables,
    vocabulary: Vocabulary,
    automaton: Automaton,
    run: bytes,
    state: int,
    edges: int,
    tail: tuple[int, ...],
) -> tuple[int, ...]:
    """Encode a run and what is forced after it, from the state after the run on.

    ``edges`` are the bytes that may come in that state.
    """
    ids: list[int] = []
    seen: set[int] = set()
    while True:
        if run:
            safe, whole = _encode_run(tables, vocabulary, tail, run, edges)
            ids += safe
            if not whole:
                break
        controls = NO_CONTROLS if edges else automaton.controls(state)
        if len(controls) != 1 or automaton.is_accepting(state):
            break
        ((text, state),) = controls.items()
        ids.append(tables.control(text))
        if state in seen:
            break
        seen.add(state)
        tail = ()
        run, state = automaton.forced(state)
        edges = automaton.first_bytes(state)
    return tuple(ids)


def _encode_run(
    tables: VocabularyTables, vocabulary: Vocabulary, tail: tuple[int, ...], run: bytes, after: int
) -> tuple[tuple[int, ...], bool]:
    """Return the safe tokens of a run, and whether they are all of it.

    ``after`` is the set of bytes that may follow the run.
    """
    length = len(run) if run[-1] < 0x80 else _whole_characters(run)
    cut = length < len(run)
    if cut:
        run, after = run[:length], 1 << run[length]
    before = vocabulary.decode(tail)
    crossings = _crossings(tables, before, run, after)
    if crossings and crossings[-1] == 0:
        return (), False
    text, count = before + run, len(tail)
    try:
        ids = _encode(tables, vocabulary, text)
        pieces = [vocabulary.tokens[index] for index in ids]
        if ids[:count] != tail or b"".join(pieces) != text:
            return (), False
        if not crossings:
            return ids[count:], not cut
        ends = list(accumulate(map(len, pieces)))
        safe = len(ids)
        for crossing in crossings:
            at = len(before) + crossing
            # The tokens before a boundary between tokens are the encoding of the bytes before it: a
            # contiguous part of an encoding is an encoding.
            whole = bisect_right(ends, at)
            if whole > count and ends[whole - 1] != at and whole - TOKENS_BACK < safe:
                whole = _agreeing(tables, vocabulary, ids, ends, text[:at], whole)
            safe = min(safe, whole)
    except VocabularyError:
        return (), False
    return ids[count : max(safe, count)], safe == len(ids) and not cut


def _crossings(tables: VocabularyTables, before: bytes, run: bytes, after: int) -> list[int]:
    """Return the offsets from which a token may reach over the end of the run, last first."""
    if not after:
        return []
    size = len(run)
    found = [size - length for length in _overlaps(tables, run, after)]
    last = (before + run)[-2:]
    if last and (0x20 < last[-1] < 0x80 or (last[-1] == 0x20 and 0x20 < last[0] < 0x80)):
        return found
    text = (before + run).decode(errors="replace")
    solid = text.rstrip()
    if len(text) - len(solid) > 1:
        # Of several white spaces the pre-tokenizers give the last one to what follows, \s+(?!\S),
        # and join them with later newlines, \s*[\r\n]+
        behind = len((text[len(solid) :]).encode())
        found.append(max(len(run) - behind, 0))
    return sorted(set(found), reverse=True)


def _overlaps(tables: VocabularyTables, run: bytes, after: int) -> tuple[int, ...]:
    """Return the numbers of last bytes of a run with which tokens begin and go on, ascending.

    The last three bytes determine the candidates, and as many last bytes as the largest candidate
    determine the result. Both are cached.
    """
    ending = run[-3:]
    lengths = tables.overlaps.get(ending)
    if lengths is None:
        if len(tables.overlaps) >= OVERLAP_CACHE_SIZE:
            tables.overlaps.clear()
        before = bytes(MAX_OVERLAP) if len(run) > 2 else b""
        lengths = tables.overlaps[ending] = tuple(tables.trie.suffix_lengths(before + ending))
    longest = lengths[-1] if lengths else 0
    if longest >= MAX_OVERLAP:
        return _confirmed(tables, run, after, tables.trie.suffix_lengths(run))
    key = run[-longest:], after
    found = tables.overlaps_into.get(key)
    if found is None:
        if len(tables.overlaps_into) >= OVERLAP_CACHE_SIZE:
            tables.overlaps_into.clear()
        found = tables.overlaps_into[key] = _confirmed(tables, run, after, lengths)
    return found


def _confirmed(
    tables: VocabularyTables, run: bytes, after: int, lengths: Iterable[int]
) -> tuple[int, ...]:
    trie, size = tables.trie, len(run)
    first, label = trie.first_, trie.bytes_
    found: list[int] = []
    for length in lengths:
        if length > size:
            break
        node = 0
        for byte in run[size - length :]:
            node = label.find(byte, first[node], first[node + 1])
            if node < 0:
                break
        else:
            if after & trie.next_bytes(node):
                found.append(length)
    return tuple(found)


def _whole_characters(run: bytes) -> int:
    """Return the length of the longest prefix that does not end within a UTF-8 character."""
    for back in range(1, min(4, len(run)) + 1):
        byte = run[-back]
        if byte & 0xC0 != 0x80:
            need = 1 if byte < 0x80 else 2 if byte < 0xE0 else 3 if byte < 0xF0 else 4
            return len(run) if back >= need else len(run) - back
    return len(run)


def _encode(tables: VocabularyTables, vocabulary: Vocabulary, text: bytes) -> tuple[int, ...]:
    found = tables.encoded.get(text)
    if found is None:
        if len(tables.encoded) >= ENCODING_CACHE_SIZE:
            tables.encoded.clear()
        found = tables.encoded[text] = tuple(vocabulary.encode(text))
    return found


def _agreeing(
    tables: VocabularyTables,
    vocabulary: Vocabulary,
    ids: Sequence[int],
    ends: Sequence[int],
    text: bytes,
    whole: int,
) -> int:
    """Return how many of ``ids`` the encoding of ``text``, a part of their bytes, begins with.

    ``ends`` are the lengths of the bytes up to the end of each, and ``whole`` of them are in ``text``.
    All but the last few before its end are taken to agree.
    """
    shared = start = max(whole - TOKENS_BACK, 0)
    behind = text[ends[start - 1] if start else 0 :]
    for ours, theirs in zip(ids[start:], _encode(tables, vocabulary, behind), strict=False):
        if ours != theirs:
            break
        shared += 1
    return shared
