"""Pictures in conversations with a model of this process: a tiny LLaVA with random weights."""

from __future__ import annotations

import base64
import io
import json
from pathlib import Path
from typing import Any

import pytest

from callmemaybe import load_model
from callmemaybe.errors import InputError
from callmemaybe.generation.config import DecodingConfig
from callmemaybe.generation.local import LocalGenerator
from callmemaybe.generation.pictures import PicturesInMessages
from callmemaybe.tools import ToolSpec
from callmemaybe.wire.tool_choice import output_spec
from tests.vocabulary.samples import train

PAINT = ToolSpec("paint", parameters={
    "type": "object", "properties": {"colour": {"enum": ["red", "blue", "green"]}},
    "required": ["colour"], "additionalProperties": False})  # fmt: skip
ENDS = ("<|im_end|>", "<|im_start|>", "<tool_call>", "</tool_call>", "<image>")


def picture(colour: str, kind: str = "PNG") -> dict[str, Any]:
    from PIL import Image

    data = io.BytesIO()
    Image.new("RGB", (28, 28), colour).save(data, kind)
    url = f"data:image/{kind.lower()};base64,{base64.b64encode(data.getvalue()).decode()}"
    return {"type": "image_url", "image_url": {"url": url}}


def asked(*parts: dict[str, Any]) -> list[dict[str, Any]]:
    return [{"role": "user", "content": [{"type": "text", "text": "Paint it "}, *parts]}]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    torch = pytest.importorskip("torch", reason="the extra torch is not installed")
    transformers = pytest.importorskip("transformers", reason="the extra torch is not installed")
    pytest.importorskip("PIL", reason="the extra torch is not installed")
    torch.manual_seed(3)
    path = tmp_path_factory.mktemp("llava")
    (path / "tokenizer.json").write_text(train(420, added=ENDS), encoding="utf-8")
    tokenizer = transformers.PreTrainedTokenizerFast(
        tokenizer_file=str(path / "tokenizer.json"), eos_token="<|im_end|>",
        extra_special_tokens={"image_token": "<image>"},
    )  # fmt: skip
    image_id = tokenizer.convert_tokens_to_ids("<image>")
    text = transformers.LlamaConfig(
        vocab_size=len(tokenizer), hidden_size=32, intermediate_size=64, num_hidden_layers=2,
        num_attention_heads=4, max_position_embeddings=1024, eos_token_id=0,
    )  # fmt: skip
    vision = transformers.CLIPVisionConfig(
        hidden_size=32, intermediate_size=64, num_hidden_layers=2, num_attention_heads=4,
        image_size=28, patch_size=14,
    )  # fmt: skip
    config = transformers.LlavaConfig(
        vision_config=vision, text_config=text, image_token_index=image_id,
        vision_feature_layer=-1,
    )  # fmt: skip
    network = transformers.LlavaForConditionalGeneration(config)
    for name, values in network.named_parameters():
        values.data = torch.randn_like(values) * (0.4 if "norm" not in name else 1.0)
    network.save_pretrained(path)
    processor = transformers.LlavaProcessor(
        transformers.CLIPImageProcessor(
            size={"shortest_edge": 28}, crop_size={"height": 28, "width": 28}
        ),
        tokenizer, patch_size=14, vision_feature_select_strategy="default",
        num_additional_image_tokens=1,
    )  # fmt: skip
    processor.save_pretrained(path)
    return path


@pytest.fixture(scope="module")
def speaker(folder: Path) -> LocalGenerator:
    return LocalGenerator(load_model(folder), format="hermes")  # type: ignore[arg-type]


def test_calls_fit_whatever_is_seen(speaker: LocalGenerator) -> None:
    """Law: a picture in the request or none, a call is in its grammar; the ids of each picture are read."""
    assert speaker.reads_images
    spec = output_spec("required")
    with_one = speaker.generate(asked(picture("red")), [PAINT], spec)
    with_two = speaker.generate(asked(picture("red"), picture("blue", "JPEG")), [PAINT], spec)
    without = speaker.generate(asked(), [PAINT], spec)
    for turn in (with_one, with_two, without):
        assert turn.calls[0].parsed["colour"] in ("red", "blue", "green")
    assert with_one.prompt_tokens == without.prompt_tokens + 4
    assert with_two.prompt_tokens == without.prompt_tokens + 8


def test_what_is_seen_counts(speaker: LocalGenerator) -> None:
    """Law: another picture gives other probabilities, the same one the same, to the last bit of what is kept."""
    config = DecodingConfig(logprobs=True, max_tokens=6)
    spec = output_spec("none", has_tools=False)

    def seen(colour: str) -> list[float]:
        turn = speaker.generate(asked(picture(colour)), [], spec, config)
        return [token.logprob for token in turn.logprobs]

    red, blue = seen("red"), seen("blue")
    assert red != blue
    assert seen("red") == red


def test_the_pictures_are_where_transformers_has_them(
    folder: Path, speaker: LocalGenerator
) -> None:
    """Law: a prompt with a picture gives the logits of transformers' own forward pass."""
    import numpy as np
    import torch
    import transformers
    from PIL import Image

    network = transformers.LlavaForConditionalGeneration.from_pretrained(folder).eval()
    processor = transformers.AutoProcessor.from_pretrained(folder)
    data = base64.b64decode(picture("green")["image_url"]["url"].partition(",")[2])
    inputs = processor(text="ab<image>cd", images=[Image.open(io.BytesIO(data))],
                       return_tensors="pt", add_special_tokens=False)  # fmt: skip
    with torch.inference_mode():
        expected = network(**inputs).logits[0, -1].float().numpy()
    model: Any = speaker.model
    session, (ids,) = model.open_with([data])
    whole = inputs["input_ids"][0].tolist()
    at = whole.index(ids[0])
    assert whole[at : at + len(ids)] == ids
    session.feed(whole[:-1], 0)
    other = session.fork()
    assert np.allclose(session.feed(whole[-1:])[-1], expected, atol=1e-4)
    assert np.allclose(other.feed(whole[-1:])[-1], expected, atol=1e-4)
    other.rewind(len(whole) - 1)
    assert np.allclose(other.feed(whole[1:])[-1], expected, atol=1e-4)


@pytest.mark.parametrize(
    ("url", "said"),
    [("https://example.org/x.png", "fetches no pictures"), ("file:///etc/passwd", "fetches no"),
     ("data:image/png;base64,!!", "not in base64")],
)  # fmt: skip
def test_nothing_is_fetched(url: str, said: str) -> None:
    """Law: a picture is in the request itself or refused."""
    message = {"role": "user", "content": [{"type": "image_url", "image_url": {"url": url}}]}
    with pytest.raises(InputError, match=said) as caught:
        PicturesInMessages([message])
    assert caught.value.where == "/messages/0/content/0"


def test_what_is_no_picture_is_refused(speaker: LocalGenerator) -> None:
    """Law: one sentence, before the model runs."""
    broken = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}
    with pytest.raises(InputError, match="cannot be read"):
        speaker.generate(asked(broken), [PAINT])


def test_the_server_shows_it_pictures(folder: Path) -> None:
    """Law: over HTTP a picture and functions give a call, in a batch with others."""
    pytest.importorskip("starlette", reason="the extra server is not installed")
    from callmemaybe.server.config import ServerConfig
    from callmemaybe.server.serving import application
    from tests.server.conftest import Seen, running

    model: Any = load_model(folder)
    config, seen = ServerConfig(port=0), Seen()
    app = application(model, config, name="talker", format="hermes")
    served = running(app, config, model, seen)
    tool = {"type": "function", "function": {"name": "paint", "parameters": dict(PAINT.parameters)}}
    try:
        answer = served.chat(
            messages=asked(picture("red")), tools=[tool], tool_choice="required", n=2
        )
        for choice in answer.json()["choices"]:
            arguments = choice["message"]["tool_calls"][0]["function"]["arguments"]
            assert json.loads(arguments)["colour"] in ("red", "blue", "green")
        url = {"type": "image_url", "image_url": {"url": "https://example.org/x.png"}}
        assert served.chat(messages=asked(url)).status_code == 400
    finally:
        served.close()
