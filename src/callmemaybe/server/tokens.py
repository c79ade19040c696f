"""Texts to tokens and back: ``/tokenize`` and ``/detokenize``, as vLLM and llama.cpp have them.

A text is read as a prompt of ``/v1/completions``, messages as those of ``/v1/chat/completions``: the ids are
those that the model would get. Everything here runs in a thread, since long texts take long.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any

from pydantic import Field

from callmemaybe.generation.continuation import TextGenerator
from callmemaybe.server.chat import read_messages
from callmemaybe.server.common import ServedModel, read_tools
from callmemaybe.server.completions import Id, check_ids
from callmemaybe.server.http_errors import ApiError, invalid_value
from callmemaybe.server.request_models import (
    ChatMessage,
    ChatTool,
    RequestObject,
    parse_request,
)

TOKENIZE_ROUTE, DETOKENIZE_ROUTE = "/tokenize", "/detokenize"


class TokenizeRequest(RequestObject):
    """A text, as vLLM (``prompt``) or llama.cpp (``content``) names it, or messages."""

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

    model: str | None = None
    tokens: Annotated[list[Id], Field(fail_fast=True)]


#: Known parameters that are not supported, with the values that ask for nothing.
TOKENIZE_NEUTRAL: Mapping[str, Sequence[Any]] = {
    "add_generation_prompt": (None, True),
    "chat_template": (None,),
    "chat_template_kwargs": (None, {}),
    "continue_final_message": (None, False),
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


def tokenize(request: TokenizeRequest, served: ServedModel) -> dict[str, Any]:
    """Return the tokens of a text or of messages. Raises ApiError and what reading them raises."""
    texts = _texts(request.model, served)
    if request.content is not None:  # llama.cpp's form
        ids = texts.ids_of(
            request.content, has_begin=bool(request.add_special),
            has_controls=request.parse_special is not False,
        )  # fmt: skip
        pieces = texts.pieces_of(ids) if request.with_pieces else ()
        listed = [
            {"id": index, "piece": _piece(data)} for index, data in zip(ids, pieces, strict=True)
        ] if request.with_pieces else ids  # fmt: skip
        return {"tokens": listed}
    if request.prompt is not None:
        ids = texts.ids_of(request.prompt, has_begin=request.add_special_tokens is not False)
    else:
        ids = _ids_of_messages(request, served)
    strings = [data.decode(errors="replace") for data in texts.pieces_of(ids)]
    return {
        "count": len(ids), "max_model_len": texts.model.context, "tokens": ids,
        "token_strs": strings if request.return_token_strs else None,
    }  # fmt: skip


def detokenize(request: DetokenizeRequest, served: ServedModel) -> dict[str, Any]:
    """Return the text of tokens, under vLLM's name and llama.cpp's. Raises ApiError."""
    texts = _texts(request.model, served)
    check_ids(request.tokens, texts.model.size, "tokens")
    text = texts.text_of(request.tokens)
    return {"prompt": text, "content": text}


def _texts(model: str | None, served: ServedModel) -> TextGenerator:
    if model is not None:
        served.check_name(model)
    if served.texts is None:
        raise ApiError(
            400, "The model is on another server, whose tokens this one does not know; ask that "
            "server.", code="unsupported_route",
        )  # fmt: skip
    return served.texts


def _ids_of_messages(request: TokenizeRequest, served: ServedModel) -> list[int]:
    assert served.conversations is not None
    messages = read_messages(request.messages or (), served)
    tools = [tool.model_dump(exclude_none=True) for tool in request.tools or ()]
    found = read_tools(tools, served.config.most_tools)
    return served.conversations.prompt_ids(messages, found)


def _piece(data: bytes) -> str | list[int]:
    """Return a token as llama.cpp does: a part of a character as its bytes."""
    try:
        return data.decode()
    except UnicodeDecodeError:
        return list(data)
