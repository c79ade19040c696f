"""Blocks as arrays: one row holds a tool list, then bins of equal length filled with pairs.

A pair sees the tool list and itself; its positions continue after the tool list, so each pair is
exactly what it would be alone. No pair crosses a bin, so attention never spans the whole row: a
bin's queries meet the tool list and their own bin, which costs half of a full mask.
"""

from __future__ import annotations

import zlib
from dataclasses import dataclass
from functools import lru_cache
from random import Random

import numpy as np
from tokenizers import Tokenizer

from training.pieces.mixture import Block, BlockMaker, Pair
from training.pieces.rendering import (
    CALL,
    TOOL,
    TOOLS,
    USER,
    Choice,
    Segment,
    completion,
    escape,
    tool_text,
)

CHOICES = list(Choice)
WEIGHTS = {
    Choice.FORCED: 0.0,
    Choice.CONTROL: 2.0,
    Choice.NAME: 1.5,
    Choice.VALUE: 1.0,
    Choice.KEY: 1.0,
    Choice.STOP: 0.3,
}


@dataclass(frozen=True, slots=True)
class Batch:
    """Rows of equal length; everything is [rows, length]."""

    ids: np.ndarray  # int32
    positions: np.ndarray  # int32
    segments: np.ndarray  # int16: 0 tool list, k pair k, -1 padding
    choices: np.ndarray  # uint8: index into CHOICES of the token at this place
    arguments: np.ndarray  # int16: number of the argument within the row, 0 for none
    blocks: list[Block]
    kinds: list[list[str]]  # per row: type of argument number n (1-based)
    tools: int  # length of the tool lists, padding included
    bin: int  # length of a bin; (length - tools) is a multiple of it


class Encoder:
    """Text to ids, with control tokens only where they are meant."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        self.tokenizer = tokenizer
        tokenizer.encode_special_tokens = True  # text that looks like a control token stays text
        self.short = lru_cache(100_000)(self._encode)

    def _encode(self, text: str) -> tuple[int, ...]:
        return tuple(self.tokenizer.encode(text, add_special_tokens=False).ids)

    def text(self, text: str) -> tuple[int, ...]:
        return self.short(text) if len(text) < 16 else self._encode(text)

    def control(self, token: str) -> int:
        return self.tokenizer.token_to_id(token)

    def tools(self, block: Block) -> list[int]:
        ids = [self.control(TOOLS)]
        for tool in block.tools:
            ids += [self.control(TOOL), *self._encode(tool_text(tool))]
        return ids

    def pair(
        self, block: Block, pair: Pair
    ) -> tuple[list[int], list[Segment], list[tuple[int, ...]]]:
        """Ids up to the call, then the completion's segments with their ids."""
        head = [self.control(USER), *self.text(escape(pair.prompt)), self.control(CALL)]
        segments = completion(pair.calls, block.tools)
        pieces = [(self.control(s.text),) if s.control else self.text(s.text) for s in segments]
        return head, segments, pieces


@dataclass(frozen=True, slots=True)
class Placed:
    """A pair ready to be written."""

    pair: Pair
    head: list[int]
    segments: list[Segment]
    pieces: list[tuple[int, ...]]

    @property
    def size(self) -> int:
        return len(self.head) + sum(map(len, self.pieces))


@dataclass(frozen=True, slots=True)
class Row:
    """A tool list with bins of pairs, not yet padded."""

    block: Block
    tools: list[int]
    bins: list[list[Placed]]


def fill_row(
    maker: BlockMaker,
    encoder: Encoder,
    rng: Random,
    shape: tuple[int, int, int],
    *,
    pairs: int = 10_000,
    size: int | None = None,
) -> Row:
    """Draw a block of at most `shape[0]` tokens and fill `shape[1]` bins of `shape[2]` tokens."""
    longest, bins, room = shape
    block, offers = maker.start(rng, size)
    ids = encoder.tools(block)
    while len(ids) > longest and len(offers) > 1:
        offers.pop()
        block.tools.pop()
        ids = encoder.tools(block)
    if len(ids) > longest:
        return fill_row(maker, encoder, rng, shape, pairs=pairs, size=size)
    row = Row(block, ids, [[] for _ in range(bins)])
    free = [room] * bins
    misses = count = 0
    while misses < 5 and count < pairs:
        pair = maker.pair(block, offers, rng)
        placed = Placed(pair, *encoder.pair(block, pair))
        fitting = [index for index in range(bins) if free[index] >= placed.size]
        if not fitting:
            misses += 1
            continue
        best = min(fitting, key=free.__getitem__)
        free[best] -= placed.size
        row.bins[best].append(placed)
        count += 1
    block.pairs = [placed.pair for each in row.bins for placed in each]
    return row


class Canvas:
    """The arrays of a batch while they are written."""

    def __init__(self, rows: list[Row], room: int) -> None:
        self.tools = -(-max(len(row.tools) for row in rows) // 16) * 16
        self.room = room
        size = (len(rows), self.tools + room * len(rows[0].bins))
        self.ids = np.zeros(size, np.int32)
        self.positions = np.zeros(size, np.int32)
        self.segments = np.full(size, -1, np.int16)
        self.choices = np.zeros(size, np.uint8)
        self.arguments = np.zeros(size, np.int16)
        self.kinds: list[list[str]] = []
        for number, row in enumerate(rows):
            self.write(number, row)

    def write(self, number: int, row: Row) -> None:
        start = len(row.tools)
        self.ids[number, :start], self.positions[number, :start] = row.tools, np.arange(start)
        self.segments[number, :start] = 0
        self.kinds.append([])
        index = 0
        for place, each in enumerate(row.bins):
            at = self.tools + place * self.room
            for placed in each:
                index += 1
                span = slice(at, at + placed.size)
                self.ids[number, span] = [*placed.head, *(i for p in placed.pieces for i in p)]
                self.positions[number, span] = np.arange(start, start + placed.size)
                self.segments[number, span] = index
                self.mark(number, at + len(placed.head), placed)
                at += placed.size

    def mark(self, number: int, at: int, placed: Placed) -> None:
        """Note who chooses each token and which argument it belongs to (an array is one)."""
        kinds, inside = self.kinds[number], False
        for segment, piece in zip(placed.segments, placed.pieces, strict=True):
            span = slice(at, at + len(piece))
            self.choices[number, span] = CHOICES.index(segment.choice)
            if segment.text == ":" and segment.choice is Choice.FORCED:
                inside = False
            if segment.choice is Choice.VALUE and segment.kind:
                if not inside:
                    kinds.append(segment.kind)
                    inside = True
                self.arguments[number, span] = len(kinds)
            at += len(piece)


def stack(rows: list[Row], room: int) -> Batch:
    """Put rows together."""
    c = Canvas(rows, room)
    blocks = [row.block for row in rows]
    return Batch(
        c.ids,
        c.positions,
        c.segments,
        c.choices,
        c.arguments,
        blocks,
        c.kinds,
        c.tools,
        room,
    )


GROUP = 8


def draw_batches(
    maker: BlockMaker, encoder: Encoder, seed: str, shapes: list[tuple[int, int, int, int]]
) -> list[Batch]:
    """Draw `GROUP` batches, always the same from the same seed.

    `shapes` lists (rows, longest tool list, bins, bin length) with one to be picked. Rows are sorted
    by the length of their tool lists before they are cut into batches: less padding.
    """
    rng = Random(seed)
    count, *shape = rng.choice(shapes)
    rows = [
        fill_row(maker, encoder, rng, (shape[0], shape[1], shape[2])) for _ in range(GROUP * count)
    ]
    rows.sort(key=lambda row: len(row.tools))
    batches = [stack(rows[at : at + count], shape[2]) for at in range(0, len(rows), count)]
    rng.shuffle(batches)
    return batches


def draw_copies(seed: str, size: int, control: int, tokens: int, spans: tuple[int, int]) -> Batch:
    """Pure copying: random tokens, then spans of them again, loss on all but their first token.

    Half of the rows repeat one span over and over: many tokens to learn from, which is what lets the
    attention to "what came after this before" form within minutes.
    """
    random = np.random.default_rng(hash_of(seed))
    low, high = spans
    length = 8 * high
    rows = tokens // length
    ids = random.integers(control, size, (rows, length), dtype=np.int32)
    choices = np.zeros((rows, length), np.uint8)
    value = CHOICES.index(Choice.VALUE)
    for row in range(rows):
        span = int(random.integers(low, high + 1))
        if row % 2:
            ids[row] = np.resize(ids[row, :span], length)
            choices[row, span + 1 :] = value
            continue
        at = length // 3
        while at < length - 4:
            span = min(int(random.integers(low, high + 1)), length - at)
            source = int(random.integers(0, length // 3 - span))
            ids[row, at : at + span] = ids[row, source : source + span]
            choices[row, at + 1 : at + span] = value
            at += span
    positions = np.broadcast_to(np.arange(length, dtype=np.int32), ids.shape)
    zeros = np.zeros((rows, length), np.int16)
    return Batch(ids, positions, zeros, choices, zeros, [], [], length, 0)


def hash_of(seed: str) -> int:
    """A seed that is the same in every process."""
    return zlib.crc32(seed.encode())
