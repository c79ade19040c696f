"""What vLLM's tests of tool parsers import, on this package's formats."""

# ruff: noqa: D101, D102 - the names of another's interface

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from functools import cache
from typing import Any
from uuid import uuid4

import pytest
from llama_cpp_chat import all_tokens, tokens_of
from vllm import left_out

from callmemaybe.errors import InputError
from callmemaybe.grammar.nodes import Control
from callmemaybe.tools import (
    ArgumentsDelta,
    CallEnded,
    CallStarted,
    StreamEvent,
    TextDelta,
    ThoughtDelta,
    ToolSpec,
)
from callmemaybe.wire import formats
from callmemaybe.wire.prompt import split_controls

#: vLLM's parsers: how it calls each, its class without ``ToolParser``, and the formats that read the same texts.
PARSERS = (
    ("apertus", "Apertus", ("apertus",)),
    ("deepseek_v3", "DeepSeekV3", ("deepseek_v3",)),
    ("deepseek_v31", "DeepSeekV31", ("deepseek_v31",)),
    ("deepseek_v32", "DeepSeekV32Engine", ("deepseek_v32",)),
    ("deepseek_v4", "DeepSeekV4Engine", ("deepseek_v4",)),
    ("dots", "Dots", ("dots",)),
    ("ernie45", "Ernie45", ("ernie45",)),
    ("functiongemma", "FunctionGemma", ("functiongemma",)),
    ("gemma4", "Gemma4Engine", ("gemma4",)),
    ("gigachat3", "GigaChat3", ("gigachat31", "gigachat3")),
    ("glm45", "Glm47MoeModel", ("glm47", "glm45")),
    ("glm47", "Glm47MoeModel", ("glm47", "glm45")),
    ("granite", "GraniteEngine", ("granite3",)),
    ("granite-20b-fc", "Granite20bFC", ("granite_20b",)),
    ("granite4", "Granite4", ("granite4",)),
    ("hermes", "Hermes2Pro", ("hermes",)),
    ("hunyuan_a13b", "HunyuanA13B", ("hunyuan_a13b",)),
    ("hy_v3", "HYV3", ("hunyuan_v3_preview", "hunyuan_v3")),
    ("internlm", "Internlm2", ("internlm2",)),
    ("jamba", "Jamba", ("jamba",)),
    ("k2_horizon", "K2Horizon", ("k2_horizon",)),
    ("kimi_k2", "KimiK2", ("kimi_k2",)),
    ("kimi_k3", "KimiK3", ("kimi_k3",)),
    ("lfm2", "Lfm2", ("lfm2",)),
    ("llama3_json", "Llama3Json", ("llama3_json",)),
    ("llama4_pythonic", "Llama4Pythonic", ("pythonic", "llama4_pythonic")),
    ("longcat", "LongcatFlash", ("longcat",)),
    ("minicpm5", "MiniCPM5XML", ("minicpm5",)),
    ("minimax_m2", "MinimaxM2", ("minimax_m2",)),
    ("minimax_m3", "MinimaxM3", ("minimax_m3",)),
    ("olmo3", "Olmo3Pythonic", ("olmo3",)),
    ("phi4_mini_json", "Phi4MiniJson", ("phi4_mini",)),
    ("poolside_v1", "PoolsideV1", ("laguna", "laguna_s")),
    ("pythonic", "Pythonic", ("pythonic",)),
    ("qwen3_coder", "Qwen3Engine", ("qwen3_coder",)),
    ("step3", "Step3", ("step3",)),
    ("step3p5", "Step3p5", ("step35",)),
    ("xlam", "xLAM", ("xlam_llama", "xlam")),
)


# -- messages -------------------------------------------------------------------------------------


class Shape:
    """A message with whatever fields it is given; nested mappings are shapes, too."""

    type = "function"
    tools: Any = None
    tool_choice: Any = None
    parameters: Any = None
    description: Any = None

    def __init__(self, **fields: Any) -> None:
        for name, value in fields.items():
            nested = name == "function" and isinstance(value, Mapping)
            setattr(self, name, Shape(**value) if nested else value)

    @classmethod
    def model_validate(cls, fields: Mapping[str, Any]) -> Shape:
        return cls(**fields)


class ChatCompletionRequest(Shape):
    messages: Any = ()
    skip_special_tokens = True
    structured_outputs: Any = None
    response_format: Any = None
    include_reasoning = True
    parallel_tool_calls: Any = None

    def __init__(self, **fields: Any) -> None:
        tools = fields.get("tools") or []
        fields["tools"] = [Shape(**tool) if isinstance(tool, Mapping) else tool for tool in tools]
        super().__init__(**fields)


@dataclass
class FunctionCall:
    name: str
    arguments: str
    id: str | None = None

    def model_dump(self, **options: Any) -> dict[str, Any]:
        return asdict(self)


@dataclass
class DeltaFunctionCall:
    name: str | None = None
    arguments: str | None = None

    def model_dump(self, **options: Any) -> dict[str, Any]:
        return {name: value for name, value in asdict(self).items() if value is not None}


@dataclass
class ToolCall:
    function: FunctionCall
    id: str = "call"
    type: str = "function"


@dataclass
class DeltaToolCall:
    index: int
    id: str | None = None
    type: str | None = None
    function: DeltaFunctionCall | None = None


@dataclass
class DeltaMessage:
    content: str | None = None
    tool_calls: list[DeltaToolCall] = field(default_factory=list)
    reasoning: str | None = None
    role: str | None = None


@dataclass
class ExtractedToolCallInformation:
    tools_called: bool
    tool_calls: list[ToolCall]
    content: str | None = None


# -- tokens ---------------------------------------------------------------------------------------

_FIRST_SPECIAL = 0x110000


class Vocabulary(dict[str, int]):
    """Every character and every control token; the first have their code points as ids."""

    def __contains__(self, token: object) -> bool:
        return super().__contains__(token) or (isinstance(token, str) and len(token) == 1)

    def __missing__(self, token: str) -> int:
        return ord(token)

    def get(self, token: str, default: Any = None) -> Any:
        return self[token] if token in self else default  # noqa: SIM401 - that is this method


class Tokenizer:
    """A tokenizer whose tokens are characters, and the control tokens of all formats."""

    def __init__(self) -> None:
        self.specials = sorted(all_tokens())
        self.vocabulary = Vocabulary(
            {token: _FIRST_SPECIAL + at for at, token in enumerate(self.specials)}
        )
        self.all_special_tokens = list(self.specials)
        self.eos_token_id = _FIRST_SPECIAL - 1

    def get_vocab(self) -> Vocabulary:
        return self.vocabulary

    def tokenize(self, text: str, **options: Any) -> list[str]:
        return [
            token
            for part in split_controls(text, frozenset(self.specials))
            for token in ([part.text] if isinstance(part, Control) else part)
        ]

    def encode(self, text: str, **options: Any) -> list[int]:
        return [self.vocabulary[token] for token in self.tokenize(text)]

    def decode(self, ids: Any, **options: Any) -> str:
        ids = [ids] if isinstance(ids, int) else ids
        known = {number: token for token, number in self.vocabulary.items()}
        return "".join(known.get(one) or chr(one) for one in ids if one != self.eos_token_id)

    def add_tokens(self, tokens: Iterable[Any], **options: Any) -> None:
        for token in tokens:
            self.vocabulary.setdefault(str(token), _FIRST_SPECIAL + len(self.vocabulary))

    def __getattr__(self, name: str) -> Any:
        return left_out(f"tokenizer.{name}")


def get_tokenizer(*parts: Any, **options: Any) -> Tokenizer:
    """Return the tokenizer, whatever model is named."""
    return Tokenizer()


class AutoTokenizer:
    from_pretrained = staticmethod(get_tokenizer)


class PreTrainedTokenizerBase(Tokenizer):
    pass


def detokenize_incrementally(
    tokenizer: Any, all_input_ids: list[int], prev_tokens: Any, *offsets: Any, **options: Any
) -> tuple[list[str], str, int, int]:
    """Return the last token and its text; every token is whole text here."""
    text = tokenizer.decode(all_input_ids[-1:])
    return [text], text, 0, 0


# -- parsers --------------------------------------------------------------------------------------


def specs(tools: Any) -> list[ToolSpec]:
    """Return the tools of a parser or a request."""
    found = {}
    for tool in tools if isinstance(tools, list | tuple) else ():
        if getattr(tool, "type", "function") == "namespace" or isinstance(tool, Mapping):
            left_out("tools in a namespace")
        function = getattr(tool, "function", None) or tool
        parameters = function.parameters
        found[function.name] = ToolSpec(
            function.name, "", dict(parameters) if isinstance(parameters, Mapping) else {}
        )
    return list(found.values())


class Reading:
    """An answer being read in one format; a piece of a control token waits for the rest of it."""

    def __init__(self, name: str, tools: list[ToolSpec], controls: frozenset[str]) -> None:
        self.controls = controls
        self.reader = formats.get(name).reader(tools, controls=controls)
        self.pending = ""
        self.events: list[StreamEvent] = []

    def feed(self, text: str, *, last: bool) -> None:
        """Read on, or to the end."""
        parts = split_controls(self.pending + text, self.controls)
        self.pending = ""
        if not last and parts and isinstance(parts[-1], str):
            keep = max(
                (n for token in self.controls for n in range(1, len(token)) if parts[-1].endswith(token[:n])),
                default=0,
            )  # fmt: skip
            at = len(parts[-1]) - keep
            *parts, self.pending = *parts[:-1], parts[-1][:at], parts[-1][at:]
        for part in parts:
            self.events += self.reader.feed(part)
        self.events += self.reader.end() if last else []


class Readings:
    """An answer being read in the formats that it may be in; the first that still reads it is asked."""

    def __init__(self, names: tuple[str, ...], tools: list[ToolSpec]) -> None:
        controls = frozenset().union(*(tokens_of(formats.get(name)) for name in names))
        self.readings = [Reading(name, tools, controls) for name in names]
        self.given = 0

    def feed(self, text: str, *, last: bool = False) -> list[StreamEvent]:
        """Return what is new; raises InputError once no format reads the answer."""
        kept, refused = [], []
        for reading in self.readings:
            try:
                reading.feed(text, last=last)
                kept.append(reading)
            except InputError as error:
                refused.append(error)
        if not kept:
            raise refused[0]
        self.readings = kept
        events = kept[0].events[self.given :]
        self.given = len(kept[0].events)
        return events


class ToolParser:
    """A parser of vLLM's kind, with a reader of a format of ours inside."""

    names: tuple[str, ...] = ()

    def __init__(self, tokenizer: Any = None, tools: Any = None, **options: Any) -> None:
        if not self.names:
            pytest.skip(f"fails: no format for {type(self).__name__}")
        self.model_tokenizer = tokenizer
        self.tools = tools
        self.reading: Readings | None = None

    @property
    def vocab(self) -> Any:
        return self.model_tokenizer.get_vocab()

    def start(self, request: Any) -> Readings:
        """Return a new reading of an answer to a request."""
        return Readings(self.names, specs(self.tools) or specs(getattr(request, "tools", None)))

    def extract_tool_calls(self, model_output: str, request: Any) -> ExtractedToolCallInformation:
        reading = self.start(request)
        events = reading.feed(model_output, last=True)
        content = b"".join(event.data for event in events if isinstance(event, TextDelta))
        calls = [
            ToolCall(
                FunctionCall(event.call.name, event.call.arguments),
                event.call.id or _new_id(),
            )
            for event in events
            if isinstance(event, CallEnded)
        ]
        return ExtractedToolCallInformation(bool(calls), calls, content.decode() or None)

    def extract_tool_calls_streaming(
        self, previous_text: str, current_text: str, delta_text: str,
        previous_token_ids: Any = (), current_token_ids: Any = (), delta_token_ids: Any = (),
        request: Any = None,
    ) -> DeltaMessage | None:  # fmt: skip
        if self.reading is None or (not previous_text and current_text == delta_text):
            self.reading = self.start(request)
        return delta_of(self.reading.feed(delta_text))

    def __getattr__(self, name: str) -> Any:
        return left_out(f"{type(self).__name__}.{name}")


def delta_of(events: list[StreamEvent]) -> DeltaMessage | None:
    """Return what is new, as vLLM says it; None if nothing is."""
    content, thought = b"", b""
    calls: dict[int, DeltaToolCall] = {}
    for event in events:
        match event:
            case TextDelta():
                content += event.data
            case ThoughtDelta():
                thought += event.data
            case CallStarted():
                calls[event.index] = DeltaToolCall(
                    event.index, _new_id(), "function", DeltaFunctionCall(event.name)
                )
            case ArgumentsDelta():
                call = calls.setdefault(
                    event.index, DeltaToolCall(event.index, function=DeltaFunctionCall())
                )
                assert call.function is not None
                call.function.arguments = (call.function.arguments or "") + event.data.decode()
    if not (content or thought or calls):
        return None
    return DeltaMessage(
        content.decode() if content else None,
        list(calls.values()),
        thought.decode() if thought else None,
    )


def _new_id() -> str:
    """Return an id as the server gives them where the model writes none."""
    return f"call_{uuid4().hex}"


@cache
def parser_class(name: str) -> type[ToolParser]:
    """Return the parser of this name."""
    if name == "ToolParser":
        return ToolParser
    names = {f"{stem}ToolParser": names for _, stem, names in PARSERS}.get(name, ())
    return type(name, (ToolParser,), {"names": names})


class ToolParserManager:
    @staticmethod
    def get_tool_parser(name: str) -> type[ToolParser]:
        stem = next((stem for known, stem, _ in PARSERS if known == name), None)
        if stem is None:
            pytest.skip(f"fails: no format for {name}")
        return parser_class(f"{stem}ToolParser")


#: Names of vLLM's modules that have a counterpart.
NAMES: dict[str, Any] = {
    one.__name__: one
    for one in (
        ChatCompletionRequest, FunctionCall, DeltaFunctionCall, ToolCall, DeltaToolCall, DeltaMessage,
        ExtractedToolCallInformation, ToolParserManager, get_tokenizer, detokenize_incrementally,
    )
} | {"ChatCompletionToolsParam": Shape, "FunctionDefinition": Shape, "FunctionTool": Shape, "TokenizerLike": Tokenizer,
     "ResponsesRequest": ChatCompletionRequest, "TOOL_CALL_START": "<|tool_call>", "TOOL_CALL_END": "<tool_call|>",
     "TOOL_CALLS_PREFIX": "<|tools_prefix|>", "TOOL_CALLS_SUFFIX": "<|tools_suffix|>"}  # fmt: skip
