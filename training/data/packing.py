"""Batches drawn from a source of blocks, always the same from the same seed."""

from __future__ import annotations

from dataclasses import dataclass
from random import Random

from callmemaybe.tuning.packing import EncodedBlock, Encoder, TokenBatch, encode_pair, stack
from callmemaybe.tuning.rendering import tool_text
from training.data.mixture import BlockMaker


@dataclass(frozen=True, slots=True)
class BatchLimits:
    """Sizes of a batch."""

    blocks: int
    pairs: int
    longest_tool: int
    longest_pair: int


def draw_row(
    maker: BlockMaker, encoder: Encoder, rng: Random, limits: BatchLimits, size: int | None = None
) -> EncodedBlock:
    """Draw a tool list with requests that fit the limits."""
    while True:
        block, offers = maker.start(rng, size)
        tools = [encoder.tool(tool_text(tool)) for tool in block.tools]
        short = [i for i, ids in enumerate(tools) if len(ids) <= limits.longest_tool]
        # A corpus of natural requests may have fewer functions than a list is asked to have.
        least = min(size or 0, 4, len(tools) if block.kind == "natural" else 4)
        if not short or len(short) < least:
            continue
        block.tools[:] = [block.tools[i] for i in short]
        offers[:] = [offers[i] for i in short]
        row = EncodedBlock(block, [tools[i] for i in short], [])
        for _ in range(limits.pairs * 3):
            placed = encode_pair(encoder, block, maker.pair(block, offers, rng))
            if len(placed.ids) <= limits.longest_pair:
                row.pairs.append(placed)
            if len(row.pairs) == limits.pairs:
                return row


def draw_batch(maker: BlockMaker, encoder: Encoder, seed: str, limits: BatchLimits) -> TokenBatch:
    """Draw a batch, always the same from the same seed."""
    rng = Random(seed)
    return stack([draw_row(maker, encoder, rng, limits) for _ in range(limits.blocks)])
