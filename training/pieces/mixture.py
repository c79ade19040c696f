"""Blocks: a tool list with many (request, calls) pairs that share it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any

from training.pieces import dialogue, synthetic
from training.pieces.requests import draw_request
from training.pieces.tasks import BlockStyle, Function, draw_variant

Calls = list[tuple[int, dict[str, Any]]]
CHAT = """hello there|how are you today?|tell me a joke|who won the match last night?|thanks a lot!|good morning
what is the meaning of life?|you are so helpful|I am bored|never mind|what can you do?|sing me a song
who was the first emperor of Rome?|why is the sky blue?|I had a long day at work|that was great, thank you
explain how magnets work|write a poem about autumn|do you like cats?|ok|what's your name?|see you later
tell me something interesting about whales|I think we should talk|is there life on Mars?|yes|no|maybe
my back hurts|what do you think about politics?|who wrote Hamlet?|how tall is Mount Everest?""".replace(
    "\n", "|"
).split("|")


@dataclass(frozen=True, slots=True)
class Offer:
    """A tool as shown, with a source of requests for it."""

    key: str
    tool: dict[str, Any]
    draw: Callable[[Random], tuple[str, dict[str, Any]]]


@dataclass(frozen=True, slots=True)
class Pair:
    """A request and the calls it means (none: nothing fits)."""

    prompt: str
    calls: Calls
    tag: str = ""


@dataclass(slots=True)
class Block:
    """A tool list and pairs."""

    tools: list[dict[str, Any]]
    kind: str
    pairs: list[Pair] = field(default_factory=list)


@dataclass
class Sources:
    """Where functions come from; `allow` refuses what would leak from an evaluation set."""

    functions: Sequence[Function]
    dialogues: dialogue.Dialogues | None
    allow_tool: Callable[[dict[str, Any]], bool] = lambda tool: True
    allow_prompt: Callable[[str], bool] = lambda prompt: True
    dress: bool = True  # show dialogue functions under other names too

    def __post_init__(self) -> None:
        self.by_domain: dict[str, list[Function]] = {}
        for function in self.functions:
            self.by_domain.setdefault(function.domain, []).append(function)
        self.services = sorted(self.dialogues.tools) if self.dialogues else []

    def offer(self, kind: str, rng: Random, style: BlockStyle, domain: str | None) -> Offer:
        """Draw a tool of one kind."""
        if kind == "dialogue" and self.dialogues:
            return self.offer_dialogue(rng)
        if kind == "synthetic":
            function = synthetic.draw_function(rng)
        else:
            function = rng.choice(self.by_domain[domain] if domain else self.functions)
        for _ in range(20):
            variant = draw_variant(function, rng, style)
            if self.allow_tool(variant.tool):
                break
        else:
            return self.offer(kind, rng, style, None)
        return Offer(function.key, variant.tool, lambda r: draw_request(function, variant, r))

    def offer_dialogue(self, rng: Random) -> Offer:
        assert self.dialogues
        name = rng.choice(self.services)
        examples = self.dialogues.examples[name]
        tool = dialogue.show(self.dialogues.tools[name], rng if self.dress else None)
        return Offer(dialogue.family(name), tool, lambda r: r.choice(examples)[:2])


@dataclass(frozen=True, slots=True)
class Mix:
    """Shares of the kinds of blocks and pairs."""

    kinds: dict[str, float]
    none: float = 0.12
    two: float = 0.04
    sizes: tuple[int, ...] = (1, 2, 3, 4, 5, 6, 7, 8, 8, 10, 12)


class BlockMaker:
    """Draws blocks and the pairs of a block."""

    def __init__(self, sources: Sources, mix: Mix) -> None:
        self.sources, self.mix = sources, mix
        self.sizes = mix.sizes

    def start(self, rng: Random, size: int | None = None) -> tuple[Block, list[Offer]]:
        """Draw tools; half of the blocks keep to few domains, so that distractors nearly fit."""
        kind = rng.choices(list(self.mix.kinds), list(self.mix.kinds.values()))[0]
        size = size or rng.choice(self.sizes)
        style = BlockStyle.draw(rng)
        close = rng.random() < 0.5
        domains = rng.sample(sorted(self.sources.by_domain), min(2, len(self.sources.by_domain)))
        offers: dict[str, Offer] = {}
        for _ in range(size * 4):
            each = rng.choice(("tasks", "synthetic", "dialogue")) if kind == "mixed" else kind
            offer = self.sources.offer(each, rng, style, rng.choice(domains) if close else None)
            if all(offer.key != other.key for other in offers.values()):
                offers.setdefault(offer.tool["name"], offer)
            if len(offers) == size:
                break
        chosen = list(offers.values())
        return Block([offer.tool for offer in chosen], kind), chosen

    def request(self, offer: Offer, rng: Random) -> tuple[str, dict[str, Any]]:
        while True:
            prompt, arguments = offer.draw(rng)
            if self.sources.allow_prompt(prompt):
                return prompt, arguments

    def pair(self, block: Block, offers: list[Offer], rng: Random) -> Pair:
        """Draw one pair for a block."""
        luck = rng.random()
        if luck < self.mix.none:
            return Pair(self.stray(block, offers, rng), [], "none")
        index = rng.randrange(len(offers))
        prompt, arguments = self.request(offers[index], rng)
        if luck > 1 - self.mix.two and block.kind != "dialogue":
            second = rng.randrange(len(offers))
            more, others = self.request(offers[second], rng)
            joint = rng.choice(
                (" and ", ", then ", ". Then ", " and also ", "; ", ". ", " and then ")
            )
            if len(prompt) + len(more) < 240:
                both = prompt.rstrip(".?!") + joint + more[:1].lower() + more[1:]
                if self.sources.allow_prompt(both):
                    return Pair(both, [(index, arguments), (second, others)], "two")
        return Pair(prompt, [(index, arguments)], "one")

    def stray(self, block: Block, offers: list[Offer], rng: Random) -> str:
        """A request that no tool of the block fits."""
        if rng.random() < 0.12:
            return rng.choice(CHAT)
        keys = {offer.key for offer in offers}
        kind = block.kind if block.kind != "mixed" else rng.choice(("tasks", "synthetic"))
        near = None
        if kind == "tasks" and rng.random() < 0.25:
            near = rng.choice([offer.key.split("/")[0] for offer in offers])
        for _ in range(50):
            domain = near if near in self.sources.by_domain else None
            offer = self.sources.offer(kind, rng, BlockStyle.draw(rng), domain)
            near = None
            if offer.key not in keys:
                return self.request(offer, rng)[0]
        return rng.choice(CHAT)
