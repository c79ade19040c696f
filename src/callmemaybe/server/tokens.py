"""Texts to tokens and back: ``/tokenize`` and ``/detokenize``, as vLLM and llama.cpp have them.

A text is read as a prompt of ``/v1/completions``, messages as those of ``/v1/chat/completions``: the ids are
those that the model would get. Long texts take seconds, so requests wait in the queue with all others, and turns
go on while one is computed.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from itertools import islice
from typing import Annotated, Any, ClassVar

from pydantic import Field

from callmemaybe.agent.single_request import first_prompt
from callmemaybe.generation.config import DecodingConfig
from callmemaybe.generation.continuation import TextGenerator
from callmemaybe.generation.result import TurnResult
from callmemaybe.server.chat import read_messages
from callmemaybe.server.common import Interface, ServedModel, read_tools
from callmemaybe.server.completions import Id, check_ids
from callmemaybe.server.http import json_bytes
from callmemaybe.server.http_errors import ApiError, invalid_value
from callmemaybe.server.request_models import (
    ChatMessage,
    ChatTool,
    RequestObject,
    parse_request,
)
from callmemaybe.server.turns import TurnRequest, TurnUpdate
from callmemaybe.tools import ToolSpec
from callmemaybe.wire.output_grammar import OutputSpec
from callmemaybe.wire.tool_choice import output_spec

TOKENIZE_ROUTE, DETOKENIZE_ROUTE = "/tokenize", "/detokenize"
#: Items of a list that are written at once; no other thread runs meanwhile.
_WRITTEN = 10_000


class TokenizeRequest(RequestObject):
    """A text, as vLLM (``prompt``) or llama.cpp (``content``) names it, or messages."""

    stream: ClassVar[None] = None
    model: str | None = None
    prompt: str | None = None
    content: str | None = None
    messages: Annotated[list[ChatMessage], Field(fail_fast=True, min_length=1)] | None = None
    tools: Annotated[list[ChatTool], Field(fail_fast=True)] | None = None
    #: Whether what the model's tokenizer begins texts with is put in front (vLLM's name, llama.cpp's).
    add_special_tokens: bool | None = None
    add_special: bool | None = None
    #: Whether the name of a control token in a text is that token.
    parse_special: bool | None = None
    return_token_strs: bool | None = None
    with_pieces: bool | None = None


class DetokenizeRequest(RequestObject):
    """Ids of tokens."""

    stream: ClassVar[None] = None
    model: str | None = None
    tokens: Annotated[list[Id], Field(fail_fast=True)]


#: Known parameters that are not supported, with the values that ask for nothing.
TOKENIZE_NEUTRAL: Mapping[str, Sequence[Any]] = {
    "add_generation_prompt": (None, True),
    "chat_template": (None,),
    "chat_template_kwargs": (None, {}),
    "continue_final_message": (None, False),
    "media_io_kwargs": (None, {}),
    "mm_processor_kwargs": (None, {}),
}
#: Which parameters each form of a request has besides its own.
_FORMS: Mapping[str, frozenset[str]] = {
    "prompt": frozenset(("add_special_tokens", "return_token_strs")),
    "content": frozenset(("add_special", "parse_special", "with_pieces")),
    "messages": frozenset(("tools", "add_special_tokens", "return_token_strs")),
}


def parse_tokenize(data: Any) -> TokenizeRequest:
    """Return the request of a JSON body; raise ApiError if it is not valid."""
    request = parse_request(TokenizeRequest, TOKENIZE_NEUTRAL, data)
    given = [name for name in TokenizeRequest.model_fields if getattr(request, name) is not None]
    forms = [name for name in given if name in _FORMS]
    if len(forms) != 1:
        raise invalid_value(
            forms[1] if forms else "prompt", "Give 'prompt', 'content' or 'messages', one of them."
        )
    (form,) = forms
    for name in given:
        if name not in ("model", form) and name not in _FORMS[form]:
            raise invalid_value(name, f"{name!r} is not allowed beside {form!r}.")
    if form == "messages" and request.add_special_tokens:
        raise invalid_value(
            "add_special_tokens",
            "The model's chat template decides what a conversation begins with.",
        )
    return request


def parse_detokenize(data: Any) -> DetokenizeRequest:
    """Return the request of a JSON body; raise ApiError if it is not valid."""
    return parse_request(DetokenizeRequest, {}, data)


def tokenize_requests(request: TokenizeRequest, served: ServedModel) -> list[TurnRequest]:
    """Return what is computed for a request, in place of a turn."""
    texts = _texts(request.model, served)
    messages: list[dict[str, Any]] = []
    if request.messages is not None:
        messages = read_messages(request.messages, served)
        tools = [tool.model_dump(exclude_none=True) for tool in request.tools or ()]
        found = read_tools(tools, served.config.most_tools)
        ids_of = partial(_ids_of_messages, served, messages, found)
        return [_computed(lambda: _told(request, texts, ids_of()), messages)]
    return [_computed(lambda: _tokenized(request, texts))]


def detokenize_requests(request: DetokenizeRequest, served: ServedModel) -> list[TurnRequest]:
    """Return what is computed for a request, in place of a turn."""
    texts = _texts(request.model, served)
    check_ids(request.tokens, texts.model.size, "tokens")
    return [_computed(lambda: _detokenized(request, texts))]


def _ids_of_messages(
    served: ServedModel, messages: Sequence[Mapping[str, Any]], tools: Sequence[ToolSpec]
) -> list[int]:
    """Return the tokens that a chat reads first; none where a model of single requests is not asked."""
    generator = served.conversations
    assert generator is not None
    if not served.is_single_request:
        return generator.prompt_ids(messages, tools)
    spec = output_spec(has_tools=bool(tools), parallel=served.format.is_parallel)
    prompt = first_prompt(generator, messages, tools, spec, DecodingConfig())
    return [] if prompt is None else generator.prompt_ids(*prompt)


def _computed(work: Callable[[], bytes], messages: Sequence[Mapping[str, Any]] = ()) -> TurnRequest:
    return TurnRequest(messages, (), OutputSpec(), DecodingConfig(), work=work)


def _tokenized(request: TokenizeRequest, texts: TextGenerator) -> bytes:
    """Return the tokens of a text, as JSON."""
    if request.content is not None:  # llama.cpp's form
        ids = texts.ids_of(
            request.content, has_begin=bool(request.add_special),
            has_controls=request.parse_special is not False,
        )  # fmt: skip
        pieces = texts.pieces_of(ids) if request.with_pieces else ()
        listed: Iterable[Any] = (
            {"id": index, "piece": _piece(data)} for index, data in zip(ids, pieces, strict=True)
        ) if request.with_pieces else ids  # fmt: skip
        return _written({}, tokens=listed)
    prompt = request.prompt or ""
    ids = texts.ids_of(prompt, has_begin=request.add_special_tokens is not False)
    return _told(request, texts, ids)


def _told(request: TokenizeRequest, texts: TextGenerator, ids: list[int]) -> bytes:
    """Return tokens as vLLM tells them, as JSON."""
    told: dict[str, Any] = {"count": len(ids), "max_model_len": texts.model.context}
    if not request.return_token_strs:
        return _written({**told, "token_strs": None}, tokens=ids)
    strings = (data.decode(errors="replace") for data in texts.pieces_of(ids))
    return _written(told, tokens=ids, token_strs=strings)


def _detokenized(request: DetokenizeRequest, texts: TextGenerator) -> bytes:
    """Return the text of tokens, under vLLM's name and llama.cpp's, as JSON."""
    text = texts.text_of(request.tokens)
    return json_bytes({"prompt": text, "content": text})


def _written(told: Mapping[str, Any], **lists: Iterable[Any]) -> bytes:
    """Return JSON of an object with lists that may have millions of items.

    They are written a part at a time: in one piece the interpreter would run nothing else for seconds, and the
    items would take a gigabyte.
    """
    members = [f"{json.dumps(name)}:".encode() + json_bytes(value) for name, value in told.items()]
    for name, items in lists.items():
        left, parts = iter(items), list[bytes]()
        while part := list(islice(left, _WRITTEN)):
            parts.append(json_bytes(part)[1:-1])
        members.append(f"{json.dumps(name)}:[".encode() + b",".join(parts) + b"]")
    return b"{" + b",".join(members) + b"}"


def _texts(model: str | None, served: ServedModel) -> TextGenerator:
    if model is not None:
        served.check_name(model)
    if served.texts is None:
        raise ApiError(
            400, "The model is on another server, whose tokens this one does not know; ask that "
            "server.", code="unsupported_route",
        )  # fmt: skip
    return served.texts


def _piece(data: bytes) -> str | list[int]:
    """Return a token as llama.cpp does: a part of a character as its bytes."""
    try:
        return data.decode()
    except UnicodeDecodeError:
        return list(data)


class ComputedBuilder:
    """Tells what was computed, which is JSON already."""

    closing = b""
    #: Nothing was read or written, so there is nothing to tell of a turn.
    results: Sequence[TurnResult] = ()

    def __init__(self, _request: Any, _served: ServedModel, _now: int) -> None:
        self._value = b""

    def begin(self) -> list[dict[str, Any]]:
        """Return nothing: it is never streamed."""
        return []

    last = begin

    def failed(self, problem: ApiError) -> list[dict[str, Any]]:
        """Return the error as an event."""
        return [problem.body]

    def take(self, _index: int, update: TurnUpdate) -> list[dict[str, Any]]:
        """Record what was computed."""
        self._value = update.value
        return []

    def whole(self) -> bytes:
        """Return what was computed."""
        return self._value


TOKENIZE_INTERFACE = Interface(TOKENIZE_ROUTE, parse_tokenize, tokenize_requests, ComputedBuilder)
DETOKENIZE_INTERFACE = Interface(
    DETOKENIZE_ROUTE, parse_detokenize, detokenize_requests, ComputedBuilder
)
