"""Blocks: a tool list with many (request, calls) pairs that share it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from random import Random
from typing import Any

from callmemaybe.tuning import packing
from callmemaybe.tuning.packing import Pair
from training.data import dialogues, foreign, natural, seal_tools
from training.data.generators import confusable_tools, synthetic
from training.data.generators.extra_parameters import with_extra_parameter
from training.data.requests import BEFORE_ANY, LEADS, draw_request, in_words, vary_style
from training.data.scenes import read_scenes
from training.data.similarity import (
    SMALL,
    FunctionSimilarity,
    describe_dialogue,
    describe_function,
    stem_set,
    stems,
    without_slots,
)
from training.data.tasks import TaskFunction
from training.data.variants import BlockStyle, Variant, draw_variant

CHAT = """hello there|how are you today?|tell me a joke|who won the match last night?|thanks a lot!|good morning
what is the meaning of life?|you are so helpful|I am bored|never mind|what can you do?|sing me a song
who was the first emperor of Rome?|why is the sky blue?|I had a long day at work|that was great, thank you
explain how magnets work|write a poem about autumn|do you like cats?|ok|what's your name?|see you later
tell me something interesting about whales|I think we should talk|is there life on Mars?|yes|no|maybe
my back hurts|what do you think about politics?|who wrote Hamlet?|how tall is Mount Everest?
that's not what I meant|wait, let me think about it|you got that wrong last time|are you a robot?
I'll do it myself, thanks|it doesn't matter any more|I love this song|my sister is getting married
what would you do in my place?|is it normal to feel tired all day?|give me three reasons to learn Latin
what's the difference between a virus and a bacterium?|I can't sleep|the weather was awful on our trip
who invented the telephone?|let's just chat for a while|did you understand me?|that was fast!|cool
summarise the plot of Romeo and Juliet|how do vaccines work?|I disagree with you|can we change the subject?
what rhymes with orange?|why do cats purr?|happy birthday to me|I've changed my mind, leave it""".replace(
    "\n", "|"
).split("|")
# Talk about what a function does that does not ask for it to be done.
ABOUT = (
    "what does it mean to {}?",
    "why would anybody {}?",
    "who invented the word {}?",
    "I read an article about {} yesterday",
    "is it hard to learn how to {}?",
    "my uncle always wanted to {}, he never did",
    "tell me the history of {}",
    "what do people like about {}?",
    "I had a dream about {} last night",
    "write a short story about {}",
    "what is the opposite of {}?",
    "thanks, I have already done the {} myself",
    "we talked about {} at school",
    "how would you explain {} to a child?",
    "can you recommend a book about {}?",
    "is {} a good name for a band?",
    "translate the word {} into Latin",
    "I don't feel like {} today",
)


NATURAL = 0.2  # share of made-up functions of real things among the written ones


# Share of requests drawn in training from those alone that share no word with their function. Drawn evenly, a
# quarter of all that calls something shares none, but 35% of what is asked of held-out functions; a network
# that sees too few learns to refuse them, and one that sees too many (0.4) forgets the plain ones.
INDIRECT = 0.2
OTHER_CONFUSABLE = 0.9  # share of the requests that fit none of a list of confusable tools which mean another tool of the kind
NEAR = 0.5  # below this share of what fits nothing, it sounds like an offered function if that has such requests
WORDY = 0.3  # share of the lists in training whose tools are described at length
LISTED = 0.2  # share of the choices in training that are strings whose description lists the values
WIDENED = 0.15  # share of written functions that get an optional parameter that is not theirs
REWORDED = 0.2  # share of imperatives that begin in training with another verb than was written
SEAL = "seal_tools"
# Of the lists of natural requests, shares by corpus.
CORPORA = {"hwu64": 0.34, "snips": 0.22, "clinc150": 0.24, "restaurants8k": 0.04, SEAL: 0.16}
IN_LANGUAGE = 0.8  # share of the functions of a list in another language that are asked for in it; others in English
TRANSLATED = (
    0.15  # share of those functions whose description is in that language, if one is written
)
STRAY = 0.25  # share of what fits nothing there that no function anywhere would serve
FAMILIAR = 0.5  # share of those lists whose functions are of few domains, if the corpus has several


JOINTS = (" and ", ", then ", ". Then ", " and also ", "; ", ". ", " and then ")
GREETINGS = tuple(words.strip().lower() for words in (*BEFORE_ANY, *LEADS))


@dataclass(frozen=True, slots=True)
class OfferedTool:
    """A tool as shown, with a source of requests for it."""

    key: str
    tool: dict[str, Any]
    draw: Callable[[Random], tuple[str, dict[str, Any]]]
    topic: str = ""  # what a made-up function is about
    near: Sequence[str] = ()  # what it cannot do, in words that sound like it
    language: str = "en"  # of its requests

    def described(self) -> str:
        """Name and description."""
        return f"{self.tool['name']} {self.tool.get('description', '')}"


@dataclass(slots=True)
class Block(packing.Block):
    """A tool list and pairs."""

    pairs: list[Pair] = field(default_factory=list)
    others: list[OfferedTool] = field(
        default_factory=list
    )  # what might stand in the list and does not
    examples: Sequence[
        seal_tools.SealRequest
    ] = ()  # requests of the list, if they are not drawn by tool
    language: str = "en"  # of most of its requests


@dataclass
class Sources:
    """Where functions come from; `allow` refuses what would leak from an evaluation set."""

    functions: Sequence[TaskFunction]
    dialogues: dialogues.Dialogues | None
    allow_tool: Callable[[dict[str, Any]], bool] = lambda tool: True
    allow_prompt: Callable[[str], bool] = lambda prompt: True
    augment: bool = (
        True  # for training: dialogue functions under other names, made-up ones in between
    )
    natural: Mapping[str, natural.NaturalCorpus] = field(default_factory=dict)  # by name
    seal: seal_tools.SealTools | None = None
    foreign: Mapping[str, foreign.ForeignTasks] = field(default_factory=dict)  # by language

    def __post_init__(self) -> None:
        self.by_domain: dict[str, list[TaskFunction]] = {}
        for function in self.functions:
            self.by_domain.setdefault(function.domain, []).append(function)
        self.services = sorted(self.dialogues.tools) if self.dialogues else []

    @cached_property
    def similarity(self) -> FunctionSimilarity:
        """Which functions would answer each other's requests."""
        texts = {scene.key: describe_function(scene.whole()) for scene in read_scenes()}
        texts |= {function.key: describe_function(function) for function in self.functions}
        for name in self.services:
            assert self.dialogues
            said = [prompt for prompt, _, _ in self.dialogues.examples[name][:40]]
            key = dialogues.family(name)
            texts[key] = texts.get(key, "") + describe_dialogue(self.dialogues.tools[name], said)
        return FunctionSimilarity(texts)

    @cached_property
    def indirect(self) -> dict[int, list[str]]:
        """Of each written function the requests that share no telling word with its names and descriptions.

        By identity: a made-up function may have the key of a written one.
        """
        found = {}
        for function in self.functions:
            about = (
                stem_set(" ".join((*function.names, *function.abouts)).replace("_", " ")) - SMALL
            )
            said = [r for r in function.requests if about.isdisjoint(stems(without_slots(r)))]
            if said:
                found[id(function)] = said
        return found

    def offer(self, kind: str, rng: Random, style: BlockStyle, domain: str | None) -> OfferedTool:
        """Draw a tool of one kind."""
        if kind == "dialogue" and self.dialogues:
            return self.offer_dialogue(rng)
        if kind == "synthetic":
            function = synthetic.draw_function(rng)
        elif self.augment and rng.random() < NATURAL:
            function = synthetic.draw_natural(rng)
        else:
            among = self.by_domain[domain] if domain else self.functions
            function = rng.choice(among)
            if self.augment and not has_choice(function) and rng.random() < 0.5:
                function = rng.choice(among)  # switches, choices and lists are rare and hard
            if self.augment and rng.random() < WIDENED:
                function = with_extra_parameter(function, rng)
        return self.shown(function, rng, style) or self.offer(kind, rng, style, None)

    def shown(self, function: TaskFunction, rng: Random, style: BlockStyle) -> OfferedTool | None:
        """A function as a tool; None if no way to show it is allowed."""
        for _ in range(20):
            variant = draw_variant(function, rng, style)
            if self.allow_tool(variant.tool):
                break
        else:
            return None
        return OfferedTool(
            function.key,
            variant.tool,
            lambda r: self.ask(function, variant, r),
            function.topic,
            function.near,
        )

    def offer_foreign(
        self,
        language: str,
        pair: tuple[TaskFunction, TaskFunction],
        rng: Random,
        style: BlockStyle,
    ) -> OfferedTool | None:
        """A written function that is asked for in another language; None if no request for it can be drawn."""
        function, asked = pair
        shown = function
        if self.augment and rng.random() < TRANSLATED:
            shown = replace(function, abouts=asked.abouts)
        for _ in range(8):
            variant = draw_variant(shown, rng, style)
            drawn = self.allow_tool(variant.tool) and foreign.draw_request(
                asked, variant, rng, language
            )
            if drawn:
                break
        else:
            return None
        return OfferedTool(
            function.key,
            variant.tool,
            lambda r: foreign.draw_request(asked, variant, r, language) or drawn,
            near=asked.near,
            language=language,
        )

    def ask(
        self, function: TaskFunction, variant: Variant, rng: Random
    ) -> tuple[str, dict[str, Any]]:
        """Draw a request; in training more often one that shares no word with the function's name."""
        if not self.augment:
            return draw_request(function, variant, rng)
        among = self.indirect.get(id(function), ()) if rng.random() < INDIRECT else ()
        return draw_request(function, variant, rng, reworded=REWORDED, among=among)

    def are_similar(self, one: OfferedTool, other: OfferedTool) -> bool:
        """Whether a request for one of two functions may mean the other."""
        similarity = self.similarity
        return (
            similarity.are_similar(one.key, other.key)
            or similarity.touches(one.topic, other.described())
            or similarity.touches(other.topic, one.described())
        )

    def offer_dialogue(self, rng: Random) -> OfferedTool:
        assert self.dialogues
        name = rng.choice(self.services)
        examples = self.dialogues.examples[name]
        tool = dialogues.show(self.dialogues.tools[name], rng if self.augment else None)
        return OfferedTool(dialogues.family(name), tool, lambda r: r.choice(examples)[:2])

    def offer_natural(
        self, corpus: natural.NaturalCorpus, function: TaskFunction, rng: Random, style: BlockStyle
    ) -> OfferedTool:
        """A function of a corpus as a tool."""
        variant, said = natural.present(corpus, function, rng, style, varied=self.augment)
        return OfferedTool(
            f"{corpus.name}/{function.names[0]}",
            variant.tool,
            lambda r: natural.ask(variant, said, r, varied=self.augment),
        )


@dataclass(frozen=True, slots=True)
class Mix:
    """Shares of the kinds of blocks and pairs."""

    kinds: dict[str, float]
    none: float = 0.12
    two: float = 0.04
    confusable: float = (
        0.0  # of the lists: functions that do different things with one kind of thing
    )
    close: float = 0.55  # of what fits another written function alone: of a domain of the list
    sizes: tuple[int, ...] = (1, 1, 2, 2, 3, 4, 5, 6, 7, 8, 8, 10, 12)


class BlockMaker:
    """Draws blocks and the pairs of a block."""

    def __init__(self, sources: Sources, mix: Mix) -> None:
        self.sources, self.mix = sources, mix
        self.sizes = mix.sizes

    def start(self, rng: Random, size: int | None = None) -> tuple[Block, list[OfferedTool]]:
        """Draw tools; half of the blocks keep to few domains, so that distractors nearly fit."""
        kind = rng.choices(list(self.mix.kinds), list(self.mix.kinds.values()))[0]
        size = size or rng.choice(self.sizes)
        style = BlockStyle.draw(rng)
        if self.sources.augment:
            style = replace(style, wordy=rng.random() < WORDY, listed=LISTED, keeps_legends=True)
        if kind == "natural":
            return self.natural(rng, size, style)
        if kind == "foreign":
            return self.foreign(rng, size, style)
        if self.mix.confusable and rng.random() < self.mix.confusable:
            return self.confusable(rng, size, style)
        close = rng.random() < 0.5
        domains = rng.sample(sorted(self.sources.by_domain), min(2, len(self.sources.by_domain)))
        offers: dict[str, OfferedTool] = {}
        for _ in range(size * 4):
            each = rng.choice(("tasks", "synthetic", "dialogue")) if kind == "mixed" else kind
            offer = self.sources.offer(each, rng, style, rng.choice(domains) if close else None)
            if not any(self.sources.are_similar(offer, other) for other in offers.values()):
                offers.setdefault(offer.tool["name"], offer)
            if len(offers) == size:
                break
        chosen = list(offers.values())
        return Block([offer.tool for offer in chosen], kind), chosen

    def confusable(
        self, rng: Random, size: int, style: BlockStyle
    ) -> tuple[Block, list[OfferedTool]]:
        """Draw functions that do different things with one kind of thing, and some that are not offered."""
        sides = (
            {o.tool["name"]: o for o in (self.sources.shown(f, rng, style) for f in side) if o}
            for side in confusable_tools.draw_confusable_tools(rng, size)
        )
        offers, others = (list(side.values()) for side in sides)
        return Block([offer.tool for offer in offers], "confusable", others=others), offers

    def natural(self, rng: Random, size: int, style: BlockStyle) -> tuple[Block, list[OfferedTool]]:
        """Draw functions of one corpus; what else its people asked for fits nothing."""
        sources = self.sources
        names = [*sources.natural, *([SEAL] if sources.seal else [])]
        name = rng.choices(names, [CORPORA[each] for each in names])[0]
        if name == SEAL:
            return self.seal_block(rng, size)
        corpus = sources.natural[name]
        domains = sorted({function.domain for function in corpus.functions})
        among = corpus.functions
        if len(domains) > 2 and rng.random() < FAMILIAR:
            few = rng.sample(domains, 2)
            among = [function for function in among if function.domain in few]
        drawn = rng.sample(among, min(size, len(among)))
        rest = [function for function in corpus.functions if function not in drawn]
        shown = [sources.offer_natural(corpus, function, rng, style) for function in drawn]
        offers = list({offer.tool["name"]: offer for offer in reversed(shown)}.values())
        near = [function for function in rest if function.domain in {f.domain for f in drawn}]
        beside = rng.sample(near, min(3, len(near))) + rng.sample(rest, min(3, len(rest)))
        others = [sources.offer_natural(corpus, function, rng, style) for function in beside]
        if corpus.strays:
            others += [
                OfferedTool("stray", {"name": ""}, lambda r: (r.choice(corpus.strays), {}))
            ] * 3
        return Block([offer.tool for offer in offers], "natural", others=others), offers

    def foreign(self, rng: Random, size: int, style: BlockStyle) -> tuple[Block, list[OfferedTool]]:
        """Draw written functions, most of which are asked for in one other language."""
        sources = self.sources
        known = [name for name, tasks in sources.foreign.items() if tasks.functions]
        language = rng.choices(known, [foreign.SHARES[name] for name in known])[0]
        tasks = sources.foreign[language]
        domains = sorted({function.domain for function, _ in tasks.functions})
        few = rng.sample(domains, min(3, len(domains)))
        near = [pair for pair in tasks.functions if pair[0].domain in few]
        close = rng.random() < 0.5
        offers: dict[str, OfferedTool] = {}
        others: list[OfferedTool] = []
        for attempt in range(size * 4 + 8):
            in_language = not offers or attempt >= size * 4 or rng.random() < IN_LANGUAGE
            if in_language:
                pair = rng.choice(near if close and rng.random() < 0.7 else tasks.functions)
                offer = sources.offer_foreign(language, pair, rng, style)
            else:
                offer = sources.offer("tasks", rng, style, None)
            if not offer or any(sources.are_similar(offer, other) for other in offers.values()):
                continue
            if len(offers) < size and attempt < size * 4:
                offers.setdefault(offer.tool["name"], offer)
            elif in_language:
                others.append(offer)
            if len(others) > 5:
                break
        chosen = list(offers.values())
        others += [
            OfferedTool("stray", {"name": ""}, lambda r: (r.choice(tasks.strays), {}))
        ] * max(1, round(len(others) * STRAY / (1 - STRAY)))
        block = Block([o.tool for o in chosen], "foreign", others=others, language=language)
        return block, chosen

    def seal_block(self, rng: Random, size: int) -> tuple[Block, list[OfferedTool]]:
        """Draw requests of Seal-Tools and the functions that they were written with."""
        seal, augment = self.sources.seal, self.sources.augment
        assert seal
        asked: list[seal_tools.SealRequest] = []
        names: dict[str, None] = {}
        for _ in range(4 * max(size, 6)):
            more = rng.choice(seal.several if seal.several and rng.random() < 0.5 else seal.single)
            asked.append(more)
            names |= dict.fromkeys(name for name, _ in more.calls)
            if rng.random() < 0.5:
                names |= dict.fromkeys(rng.sample(more.candidates, min(2, len(more.candidates))))
            if len(names) >= max(size, 6):
                break
        order = list(names)
        rng.shuffle(order)
        offers = [
            OfferedTool(
                name, seal_tools.dress(seal.tools[name], rng if augment else None), no_request
            )
            for name in order
        ]
        others = [
            OfferedTool("", {"name": ""}, lambda r, request=request: (request.prompt, {}))
            for request in rng.sample(seal.single, min(8, len(seal.single)))
            if request.calls[0][0] not in names
        ]
        block = Block([offer.tool for offer in offers], "natural", others=others, examples=asked)
        return block, offers

    def seal_pair(self, block: Block, offers: list[OfferedTool], rng: Random) -> Pair:
        """A request of the block's own, for one call or several."""
        places = {offer.key: index for index, offer in enumerate(offers)}
        fitting = [r for r in block.examples if all(name in places for name, _ in r.calls)]
        if not fitting:
            return Pair(self.unanswerable(block, offers, rng), [], "none")
        drawn = rng.choice(fitting)
        return Pair(drawn.prompt, [(places[name], given) for name, given in drawn.calls], "natural")

    def request(self, offer: OfferedTool, rng: Random) -> tuple[str, dict[str, Any]]:
        while True:
            prompt, arguments = offer.draw(rng)
            if self.sources.allow_prompt(prompt):
                return prompt, arguments

    def pair(self, block: Block, offers: list[OfferedTool], rng: Random) -> Pair:
        """Draw one pair for a block."""
        luck = rng.random()
        if luck < self.mix.none:
            return Pair(self.unanswerable(block, offers, rng), [], "none")
        if block.examples:
            return self.seal_pair(block, offers, rng)
        index = rng.randrange(len(offers))
        if block.kind == "foreign" and not self.sources.augment:
            index = rng.choice([n for n, each in enumerate(offers) if each.language != "en"])
        prompt, arguments = self.request(offers[index], rng)
        if luck > 1 - self.mix.two and block.kind != "dialogue":
            second = rng.randrange(len(offers))
            for _ in range(4):  # no greeting before the second request
                more, others = self.request(offers[second], rng)
                if not more.lower().startswith(GREETINGS):
                    break
            joint = rng.choice(foreign.JOINTS.get(block.language, JOINTS))
            # Nobody asks twice for the same call.
            is_new = (second, others) != (index, arguments)
            if is_new and len(prompt) + len(more) < 240:
                first = more.split(" ")[0]
                if first[1:].islower() and first[:2].isalpha() and not begins(others, more):
                    more = more[0].lower() + more[1:]
                both = without_full_stop(prompt, arguments) + joint + more
                if self.sources.allow_prompt(both):
                    return Pair(both, [(index, arguments), (second, others)], "two")
        return Pair(
            prompt,
            [(index, arguments)],
            offers[index].language if block.kind == "foreign" else "one",
        )

    def near_miss(self, offers: list[OfferedTool], rng: Random) -> str:
        """What sounds like one of the offered functions and is none; empty if the others may do it."""
        domains = [offer.key.split("/")[0] for offer in offers]
        lone = [
            o for o, own in zip(offers, domains, strict=True) if o.near and domains.count(own) == 1
        ]
        if not lone:
            return ""
        meant = rng.choice(lone)
        prompt = rng.choice(meant.near)
        others = (other.tool for other in offers if other is not meant)
        if any(self.sources.similarity.mentions(prompt, other) for other in others):
            return ""
        return (
            vary_style([(prompt, False)], rng, False, False)
            if self.sources.allow_prompt(prompt)
            else ""
        )

    def unanswerable(self, block: Block, offers: list[OfferedTool], rng: Random) -> str:
        """A request that no tool of the block fits: idle talk, or what another function does.

        Many of the latter are from the same domains, so that a similar topic is no reason to call.
        """
        if block.kind == "foreign":
            if rng.random() < NEAR / 2 and (prompt := self.near_miss(offers, rng)):
                return prompt
            return self.request(rng.choice(block.others), rng)[0]
        luck = rng.random()
        if luck < 0.07:
            return rng.choice(CHAT)
        if luck < 0.14:
            return talk_about(rng.choice(offers).tool["name"], rng)
        if luck < NEAR and (prompt := self.near_miss(offers, rng)):
            return prompt
        if block.others and luck < OTHER_CONFUSABLE:
            return self.request(rng.choice(block.others), rng)[0]
        kind = (
            block.kind
            if block.kind not in ("mixed", "confusable", "natural")
            else rng.choice(("tasks", "synthetic"))
        )
        similarity = self.sources.similarity
        near = [offer.key.split("/")[0] for offer in offers if "/" in offer.key]
        near = [domain for domain in near if domain in self.sources.by_domain]
        close = bool(near) and kind == "tasks" and rng.random() < self.mix.close
        for attempt in range(60):
            domain = rng.choice(near) if close and attempt < 15 else None
            offer = self.sources.offer(kind, rng, BlockStyle.draw(rng), domain)
            if any(self.sources.are_similar(offer, other) for other in offers):
                continue
            prompt = self.request(offer, rng)[0]
            if not any(
                similarity.mentions(prompt, other.tool) or similarity.touches(other.topic, prompt)
                for other in offers
            ):
                return prompt
        return rng.choice(CHAT)


def no_request(_: Random) -> tuple[str, dict[str, Any]]:
    """Draws nothing: the requests are the block's own."""
    raise ValueError("a function of Seal-Tools has no requests of its own")


def has_choice(function: TaskFunction) -> bool:
    """Whether a function has a switch, a choice or a list among its parameters."""
    return any(p.type in ("boolean", "enum") or p.type[0] == "[" for p in function.parameters)


def texts(value: Any) -> Iterator[str]:
    """The texts in an argument, however deep."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict | list):
        for each in value.values() if isinstance(value, dict) else value:
            yield from texts(each)


def begins(arguments: dict[str, Any], prompt: str) -> bool:
    """Whether a request begins with an argument, which has to stay as it is."""
    return any(text and prompt.startswith(text) for text in texts(arguments))


def without_full_stop(prompt: str, arguments: dict[str, Any]) -> str:
    """A request without the marks that end it, but for those that belong to an argument."""
    short = prompt.rstrip(".?!")
    return (
        prompt if any(text in prompt and text not in short for text in texts(arguments)) else short
    )


def talk_about(name: str, rng: Random) -> str:
    """A sentence with a function's words that does not ask for it."""
    words = in_words(name.rpartition(".")[2]).removeprefix("fn ")
    return rng.choice(ABOUT).format(rng.choice((words, words, words.split()[-1], f"'{words}'")))
