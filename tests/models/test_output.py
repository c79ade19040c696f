"""What a model says does not depend on how it is asked: forced or not, guessed, batched, kept."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import onnx
import pytest

from callmemaybe import models
from callmemaybe.decoding.batch import DecodeBatch
from callmemaybe.decoding.decoder import Decoder
from callmemaybe.decoding.prefix_cache import PrefixCache
from callmemaybe.decoding.prompt_lookup import PromptLookupDrafter
from callmemaybe.decoding.sampler import Sampler
from callmemaybe.grammar import Grammar
from callmemaybe.grammar import compile as compile_grammar
from callmemaybe.grammar.nodes import CaptureMark, lit, seq, words_then
from callmemaybe.matching import Matcher
from callmemaybe.models.base import Model, Session, common_prefix_length
from tests.decoding.helpers import CHATML, vocabulary
from tests.decoding.test_decoder import NUMBER, STRING
from tests.models.placed import place
from tests.training.qwen3_reference import random_tensors, tiny_config
from tests.vocabulary.samples import train
from training.export import qwen3_onnx as export_onnx
from training.export import qwen3_rows as export_rows

CONFIG = tiny_config(
    vocab_size=420, intermediate_size=128, max_position_embeddings=512, tie_word_embeddings=False
)
#: A name that decides what follows, and values in which the model is free.
VALUES = seq(STRING, lit(', "n": '), NUMBER, lit(', "to": '), STRING, lit("}}"))
LANGUAGE = compile_grammar(
    Grammar(
        seq(
            lit('{"name": "'),
            CaptureMark("name", True),
            words_then(
                {
                    name: seq(
                        CaptureMark("name", False), lit(f'", "arguments": {{"{key}": '), VALUES
                    )
                    for name, key in {"send": "what", "seek": "where", "book": "when"}.items()
                }
            ),
        )
    )
)
#: Single bytes, and tokens that the language has no use for: every text is spelled in one way.
SINGLE = vocabulary(CHATML, ("<|im_end|>",), more=())
WIDE = vocabulary(
    CHATML,
    ("<|im_end|>",),
    more=[bytes([255, 1 + at // 250, 1 + at % 250]) for at in range(420 - SINGLE.size)],  # type: ignore[arg-type]
)
REQUESTS = ["ab 10, 0.5", "the city of 'Ulm'", "-3 and 'x y'", "12 12 12"]
SHARED = list(range(40, 100))
MOST = 70


def onnx_model(folder: Path, layout: str, precision: str) -> Model:
    path = export_onnx.export(
        CONFIG, random_tensors(CONFIG), folder, layout=layout, precision=precision  # type: ignore[arg-type]
    )  # fmt: skip
    if layout == "optimum" and folder.name == "placed":
        graph = onnx.load(str(path))
        place(graph)
        onnx.save(graph, str(path))
    return models.load(folder)


def rows_model(folder: Path) -> Model:
    export_rows.export(CONFIG, random_tensors(CONFIG), folder)
    return models.load(folder)


def gguf_model(folder: Path, kind: str) -> Model:
    pytest.importorskip("llama_cpp", reason="the extra 'gguf' is not installed")
    from training.export import qwen3_gguf as export_gguf

    path = export_gguf.export(
        CONFIG, random_tensors(CONFIG), folder / "model.gguf", kind=kind,  # type: ignore[arg-type]
        tokenizer=train(400), ends={"eos_token_id": 0}, chat_template="",
    )  # fmt: skip
    return models.load(path)


def torch_model(folder: Path) -> Model:
    pytest.importorskip("transformers", reason="the extra 'torch' is not installed")
    from safetensors.numpy import save_file

    save_file(random_tensors(CONFIG), folder / "model.safetensors", metadata={"format": "pt"})
    (folder / "config.json").write_text(json.dumps(CONFIG))
    return models.load(folder)


#: Models by engine and kind of graph, with how far two ways to the same logits may be apart,
#: relative to the largest (see test_laws, test_gguf, test_transformers).
MODELS: dict[str, tuple[Callable[[Path], Model], float]] = {
    "fused": (lambda folder: onnx_model(folder, "genai", "fp32"), 1e-5),
    "fused-int4": (lambda folder: onnx_model(folder, "genai", "int4"), 2e-2),
    "grown": (lambda folder: onnx_model(folder, "optimum", "fp32"), 1e-5),
    "placed": (lambda folder: onnx_model(folder, "optimum", "fp32"), 1e-5),
    "rows": (rows_model, 0.0),
    "gguf-f32": (lambda folder: gguf_model(folder, "f32"), 2e-3),
    "gguf-q8_0": (lambda folder: gguf_model(folder, "q8_0"), 3e-2),
    "torch": (torch_model, 1e-4),
}


@pytest.fixture(scope="module", params=MODELS)
def subject(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> tuple[Model, float]:
    folder = tmp_path_factory.mktemp("output") / request.param
    folder.mkdir()
    make, tolerance = MODELS[request.param]
    return make(folder), tolerance


@dataclass(frozen=True)
class Way:
    """A way to decode."""

    forcing: bool = False
    guessing: bool = False
    keeping: bool = False
    at_once: int = 1

    def answers(self, model: Model) -> list[tuple[int, ...]]:
        """Return the ids of the answer to each request."""
        with DecodeBatch(model, self.at_once) as batch:
            used: Model = batch if self.at_once > 1 else model
            prefixes = PrefixCache(used) if self.keeping else None
            works = [lambda said=said: self.answer(used, prefixes, said) for said in REQUESTS]
            if self.at_once == 1:
                return [work() for work in works]
            return [task.result(60) for task in [batch.submit(work) for work in works]]

    def answer(self, model: Model, prefixes: PrefixCache | None, said: str) -> tuple[int, ...]:
        prompt = list(said.encode())
        session: Session
        if prefixes is None:
            session, prompt = model.open(), SHARED + prompt
        else:
            session = prefixes.fork(SHARED)
        decoder = Decoder(
            session, Matcher(LANGUAGE, WIDE), Sampler(), prompt, MOST,
            forcing=self.forcing, drafter=PromptLookupDrafter(said) if self.guessing else None,
        )  # fmt: skip
        for _ in decoder.steps():
            pass
        return decoder.matcher.ids


WAYS = {
    "forcing": Way(forcing=True),
    "guessing": Way(guessing=True),
    "keeping": Way(keeping=True),
    "batched": Way(at_once=4),
    "all": Way(forcing=True, guessing=True, keeping=True, at_once=3),
}


@pytest.fixture(scope="module")
def plain(subject: tuple[Model, float]) -> list[tuple[int, ...]]:
    return Way().answers(subject[0])


@pytest.mark.parametrize("way", WAYS)
def test_greedy_output_is_the_same(
    subject: tuple[Model, float], plain: list[tuple[int, ...]], way: str
) -> None:
    """Token for token; where two differ, the model's arithmetic could not tell the tokens apart."""
    model, tolerance = subject
    found = WAYS[way].answers(model)
    for said, mine, other in zip(REQUESTS, found, plain, strict=True):
        if mine != other:
            assert tolerance, (mine, other)
            assert is_tied(model, tolerance, said, mine, other), (mine, other)


def is_tied(
    model: Model, tolerance: float, said: str, left: tuple[int, ...], right: tuple[int, ...]
) -> bool:
    """Whether the logits of the first tokens that differ are equal as far as can be told.

    In the middle of a choice among names the whole names count; the law is then not lenient.
    """
    at = common_prefix_length(left, right)
    ids = [*SHARED, *said.encode(), *left[:at]]
    logits = model.open().feed(ids)[0]
    apart = abs(float(logits[left[at]] - logits[right[at]]))
    return apart <= 2 * tolerance * float(np.abs(logits).max())


def test_most_answers_are_long_enough_to_differ(plain: list[tuple[int, ...]]) -> None:
    """The answers that are compared are not all the shortest one."""
    assert sum(map(len, plain)) > 100
    assert len(set(plain)) > 2
