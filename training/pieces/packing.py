"""Tool lists and requests as flat arrays.

A tool is read on its own, whatever stands beside it, and a request sees itself and the tools it
calls; so a batch is a bag of short segments that attention never crosses, and tool lists cost nothing
for the second request that shares them. `ids` holds all tokens one behind another, tools first.
"""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass
from functools import cached_property, lru_cache
from random import Random

import numpy as np
from tokenizers import Tokenizer

from training.pieces import tokenizer as tokenizers
from training.pieces.mixture import Block, BlockMaker, Pair
from training.pieces.rendering import (
    AGAIN,
    ARGS,
    CALL,
    FILL,
    TOOL,
    USER,
    Choice,
    Number,
    Segment,
    completion,
    escape,
    to_json,
    tool_text,
)

CHOICES = list(Choice)
GRADED = frozenset((Choice.VALUE, Choice.KEY, Choice.STOP))  # by the token; names are chosen whole


class Encoder:
    """Text to ids, with control tokens only where they are meant."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        self.tokenizer = tokenizer
        tokenizer.encode_special_tokens = True  # text that looks like a control token stays text
        self.text = lru_cache(200_000)(self._encode)

    def _encode(self, text: str) -> tuple[int, ...]:
        return tuple(self.tokenizer.encode(text, add_special_tokens=False).ids)

    def control(self, token: str) -> int:
        return int(self.tokenizer.token_to_id(token))

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
        return [int(number) for number in tokenizers.forms(self.tokenizer)[3]]

    def where(self, segment: Segment, said: list[int]) -> list[tuple[int, list[int]]]:
        """For the lines of a form, by the token that ends them: where in `said` their values begin.

        A list is where its first item is; what is not said literally is nowhere, and left out.
        """
        starts, found = [], []
        for end, value in segment.lines:
            value = value[0] if isinstance(value, list) and value else value
            if isinstance(value, bool) or not isinstance(value, (str, int, float)):
                continue
            text = to_json(value)
            if isinstance(value, str) and not isinstance(value, Number):
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
class Placed:
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
class Row:
    """A tool list and its requests."""

    block: Block
    tools: list[list[int]]
    pairs: list[Placed]


def place(encoder: Encoder, block: Block, pair: Pair) -> Placed:
    """Write one pair."""
    ids, again = encoder.request(pair.prompt)
    owners, choices, arguments = ([0] * len(ids) for _ in range(3))
    calls, kinds = [len(ids) - 1], []  # type: tuple[list[int], list[str]]
    forms: list[int] = []
    marks: list[tuple[int, bool]] = []
    found: list[tuple[int, list[int]]] = []
    segments = completion(pair.calls, block.tools)
    owner, inside = 0, False
    for segment, piece in zip(segments, encoder.pieces(segments), strict=True):
        if segment.control:
            owner = len(calls) if segment.text in (ARGS, FILL) else 0
            if segment.text == CALL:
                calls.append(len(ids))
        if segment.text == ":" and segment.choice is Choice.FORCED:
            inside = False
        number = 0
        if segment.choice is Choice.VALUE and segment.kind:
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
    return Placed(pair, ids, again, owners, choices, arguments, kinds, calls, forms, marks, found)


@dataclass(frozen=True, slots=True)
class Limits:
    """Sizes of a batch."""

    blocks: int
    pairs: int
    longest_tool: int
    longest_pair: int


def draw_row(
    maker: BlockMaker, encoder: Encoder, rng: Random, limits: Limits, size: int | None = None
) -> Row:
    """Draw a tool list with requests that fit the limits."""
    while True:
        block, offers = maker.start(rng, size)
        tools = [encoder.tool(tool_text(tool)) for tool in block.tools]
        short = [i for i, ids in enumerate(tools) if len(ids) <= limits.longest_tool]
        if not short or (size and len(short) < min(size, 4)):
            continue
        block.tools[:] = [block.tools[i] for i in short]
        offers[:] = [offers[i] for i in short]
        row = Row(block, [tools[i] for i in short], [])
        for _ in range(limits.pairs * 3):
            placed = place(encoder, block, maker.pair(block, offers, rng))
            if len(placed.ids) <= limits.longest_pair:
                row.pairs.append(placed)
            if len(row.pairs) == limits.pairs:
                return row


@dataclass(slots=True)
class Batch:
    """`rows` lists of tools with P requests each; N tokens in all, T tool lists of equal P."""

    rows: list[Row]
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


def stack(rows: list[Row]) -> Batch:
    """Put rows together; every row has the same number of requests."""
    ids: list[int] = []
    positions: list[int] = []
    segments: list[int] = []

    def add(piece: list[int], number: int) -> list[int]:
        at = len(ids)
        ids.extend(piece)
        positions.extend(range(len(piece)))
        segments.extend([number] * len(piece))
        return list(range(at, at + len(piece)))

    tools: list[list[int]] = []
    row_tools: list[list[int]] = []
    for row in rows:
        row_tools.append([])
        for each in row.tools:
            row_tools[-1].append(len(tools))
            tools.append(add(each, len(tools)))
    pairs, owners, again, seen, seen_owner = [], [], [], [], []
    forms: list[list[int]] = []
    marks: list[tuple[int, bool]] = []
    found: list[tuple[int, int, list[int]]] = []
    calls: list[tuple[int, int, int]] = []
    graded: list[tuple[int, int, int, int]] = []
    width = max(map(len, row_tools))
    kinds = {CHOICES.index(choice) for choice in GRADED}
    for number, row in enumerate(rows):
        for placed in row.pairs:
            index = len(pairs)
            places = add(placed.ids, len(tools) + index)
            pairs.append(places)
            owners.append(placed.owners)
            forms.append([places[p] for p in placed.forms])
            marks += [(places[p], true) for p, true in placed.marks]
            found += [(places[p], index, begin) for p, begin in placed.found]
            again.append(places[placed.again : placed.calls[0]])
            chosen = [tools[row_tools[number][i]] for i, _ in placed.pair.calls]
            seen.append([p for each in chosen for p in each])
            seen_owner.append([n for n, each in enumerate(chosen, 1) for _ in each])
            right = [i for i, _ in placed.pair.calls] or [width]
            calls += [(places[c], index, r) for c, r in zip(placed.calls, right, strict=True)]
            graded += [
                (places[p] - 1, index, kind, argument)
                for p, (kind, argument) in enumerate(
                    zip(placed.choices, placed.arguments, strict=True)
                )
                if kind in kinds and p > placed.calls[0] + 1 and not _ends_name(placed, p)
            ]
    call = np.array(calls, np.int64).reshape(-1, 3)
    grade = np.array(graded, np.int64).reshape(-1, 4)
    again_pad = padded(again)
    found_at = np.zeros((len(found), again_pad.shape[1]), bool)
    for line, (_, _, begin) in enumerate(found):
        found_at[line, begin] = True
    lists = [[p for t in each for p in tools[t]] for each in row_tools]
    owners_of = [[n for n, t in enumerate(each) for _ in tools[t]] for each in row_tools]
    return Batch(
        rows,
        np.array(ids, np.int64),
        np.array(positions, np.int64),
        np.array(segments, np.int64),
        padded(tools),
        padded(pairs),
        np.maximum(padded(owners), 0),
        padded(seen),
        padded(seen_owner),
        again_pad,
        padded(lists),
        padded(owners_of),
        padded(row_tools),
        call[:, 0],
        call[:, 1],
        call[:, 2],
        grade[:, 0],
        grade[:, 1],
        grade[:, 2],
        grade[:, 3],
        padded(forms),
        np.array([p for p, _ in marks], np.int64),
        np.array([true for _, true in marks], bool),
        np.array([p for p, _, _ in found], np.int64),
        np.array([index for _, index, _ in found], np.int64),
        found_at,
    )


def _ends_name(placed: Placed, place: int) -> bool:
    """Whether a STOP is `<|args|>`: the end of a name is decided with the name."""
    return placed.owners[place] > 0 and placed.owners[place - 1] == 0


def draw_batch(maker: BlockMaker, encoder: Encoder, seed: str, limits: Limits) -> Batch:
    """Draw a batch, always the same from the same seed."""
    rng = Random(seed)
    return stack([draw_row(maker, encoder, rng, limits) for _ in range(limits.blocks)])
