"""A chat model of LangChain over a model in this process: ``bind_tools``, ``with_structured_output``, streams, agents.

::

    from callmemaybe.integrations.langchain import ChatCallMeMaybe
    ChatCallMeMaybe(model="nano").bind_tools([get_weather]).invoke("What's the weather in Paris?").tool_calls

nano writes no text of its own: what it cannot do is in ``docs/how-to/langchain.md``.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from operator import itemgetter
from typing import Any, Literal

from langchain_core.callbacks import CallbackManagerForLLMRun
from langchain_core.language_models import LanguageModelInput, ModelProfile
from langchain_core.language_models.chat_models import BaseChatModel, LangSmithParams
from langchain_core.messages import (
    AIMessage,
    AIMessageChunk,
    BaseMessage,
    convert_to_openai_messages,
)
from langchain_core.messages.ai import UsageMetadata
from langchain_core.messages.tool import tool_call as made_tool_call
from langchain_core.messages.tool import tool_call_chunk
from langchain_core.output_parsers import JsonOutputParser, PydanticOutputParser
from langchain_core.output_parsers.openai_tools import JsonOutputKeyToolsParser, PydanticToolsParser
from langchain_core.outputs import ChatGeneration, ChatGenerationChunk, ChatResult
from langchain_core.runnables import Runnable, RunnableMap, RunnablePassthrough
from langchain_core.utils.function_calling import convert_to_json_schema, convert_to_openai_tool
from pydantic import BaseModel, ConfigDict, Field, PrivateAttr

from callmemaybe.errors import InputError
from callmemaybe.integrations._chat import (
    ChatReply,
    ChatStream,
    LocalChat,
    arguments_object,
    decoding_of,
    stated_schema,
)

#: LangChain's words for OpenAI's ``tool_choice``.
_CHOICES = {"any": "required", "auto": "auto", "none": "none", "required": "required"}


class ChatCallMeMaybe(BaseChatModel):  # type: ignore[misc]
    """A chat model of LangChain. ``model`` is what ``load_model`` takes, or a loaded model.

    ``format`` is the wire format (None: told from the model's files). A message's ``response_metadata`` has what the model did not
    read ("unread") and how probable each function was ("functions"). Errors are this package's own.
    """

    model_config = ConfigDict(arbitrary_types_allowed=True)

    model: Any = "nano"
    format: str | None = None
    max_tokens: int | None = None
    temperature: float | None = None
    top_p: float | None = None
    seed: int | None = None
    stop: list[str] | None = Field(default=None, alias="stop_sequences")
    _chat: LocalChat = PrivateAttr()

    def model_post_init(self, context: Any, /) -> None:
        """Load the model."""
        super().model_post_init(context)
        self._chat = LocalChat(self.model, self.format)

    @property
    def _llm_type(self) -> str:
        return "callmemaybe"

    @property
    def _identifying_params(self) -> dict[str, Any]:
        return {"model": self._chat.name, **self._settings()}

    def _settings(self) -> dict[str, Any]:
        return {
            "max_tokens": self.max_tokens, "temperature": self.temperature, "top_p": self.top_p,
            "seed": self.seed, "stop": self.stop,
        }  # fmt: skip

    def _get_ls_params(self, stop: list[str] | None = None, **kwargs: Any) -> LangSmithParams:
        found = super()._get_ls_params(stop=stop, **kwargs)
        return LangSmithParams(
            **{**found, "ls_provider": "callmemaybe", "ls_model_name": self._chat.name}
        )

    def _resolve_model_profile(self) -> ModelProfile | None:
        return ModelProfile(tool_calling=True, tool_choice=True, structured_output=True)

    # -- what LangChain asks for ------------------------------------------------------------------

    def bind_tools(
        self,
        tools: Sequence[dict[str, Any] | type | Callable[..., Any] | Any],
        *,
        tool_choice: str | bool | Mapping[str, Any] | None = None,
        parallel_tool_calls: bool | None = None,
        strict: bool | None = None,  # noqa: ARG002 - every call is strict
        **kwargs: Any,
    ) -> Runnable[LanguageModelInput, AIMessage]:
        """Bind tools; ``tool_choice`` is "auto", "none", "any", the name of a tool, or OpenAI's form."""
        made = [convert_to_openai_tool(one) for one in tools]
        bound: dict[str, Any] = {"tools": made, **kwargs}
        if tool_choice is not None and tool_choice is not False:
            bound["tool_choice"] = _openai_choice(tool_choice)
        if parallel_tool_calls is not None:
            bound["parallel_tool_calls"] = parallel_tool_calls
        return self.bind(**bound)

    def with_structured_output(
        self,
        schema: dict[str, Any] | type,
        *,
        method: Literal["json_schema", "function_calling"] = "json_schema",
        include_raw: bool = False,
        strict: bool | None = None,  # noqa: ARG002 - every answer is
        **kwargs: Any,
    ) -> Runnable[LanguageModelInput, dict[str, Any] | BaseModel]:
        """Return what answers with an object of ``schema``: by a JSON Schema, or by a call of one function.

        Raises InputError for another method.
        """
        if method not in ("json_schema", "function_calling"):
            raise InputError(
                f"there is no method {method!r}", where="method",
                hint="use json_schema or function_calling",
            )  # fmt: skip
        model: Runnable[LanguageModelInput, AIMessage]
        parser: Any
        is_class = isinstance(schema, type) and issubclass(schema, BaseModel)
        if method == "json_schema":
            form = convert_to_json_schema(schema)
            stated = {"name": form.get("title", "answer"), "schema": form}
            model = self.bind(
                response_format={"type": "json_schema", "json_schema": stated}, **kwargs
            )
            parser = (
                PydanticOutputParser(pydantic_object=schema) if is_class else JsonOutputParser()
            )
        else:
            name = convert_to_openai_tool(schema)["function"]["name"]
            model = self.bind_tools([schema], tool_choice=name, parallel_tool_calls=False, **kwargs)
            parser = (
                PydanticToolsParser(tools=[schema], first_tool_only=True)
                if is_class
                else JsonOutputKeyToolsParser(key_name=name, first_tool_only=True)
            )
        if not include_raw:
            return model | parser
        parsed = RunnablePassthrough.assign(
            parsed=itemgetter("raw") | parser, parsing_error=lambda _: None
        )
        failed = RunnablePassthrough.assign(parsed=lambda _: None)
        return RunnableMap(raw=model) | parsed.with_fallbacks(
            [failed], exception_key="parsing_error"
        )

    def _ask(
        self, messages: list[BaseMessage], stop: list[str] | None, given: Mapping[str, Any]
    ) -> ChatStream:
        settings = {**self._settings(), **given}
        if stop is not None:
            settings["stop"] = stop
        choice = given.get("tool_choice")
        return self._chat.ask(
            [_as_chat_message(one) for one in messages],
            given.get("tools") or (),
            choice=None if choice is None else _openai_choice(choice),
            parallel=given.get("parallel_tool_calls") is not False,
            answer=stated_schema(given.get("response_format")),
            decoding=decoding_of(settings),
        )

    def _generate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: CallbackManagerForLLMRun | None = None,  # noqa: ARG002
        **kwargs: Any,
    ) -> ChatResult:
        reply = self._ask(messages, stop, kwargs).reply
        message = AIMessage(
            content=reply.text,
            tool_calls=[
                made_tool_call(name=one.name, args=arguments_object(one), id=one.id)
                for one in reply.calls
            ],
            usage_metadata=_usage(reply),
            response_metadata=self._metadata(reply),
        )
        return ChatResult(generations=[ChatGeneration(message=message)])

    def _stream(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: CallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> Iterator[ChatGenerationChunk]:
        stream = self._ask(messages, stop, kwargs)
        try:
            for piece in stream:
                chunk = ChatGenerationChunk(message=AIMessageChunk(content=piece))
                if run_manager:
                    run_manager.on_llm_new_token(piece, chunk=chunk)
                yield chunk
            reply = stream.reply
        finally:
            stream.close()
        # Calls come whole: LangChain completes the JSON of a call that was cut off.
        yield ChatGenerationChunk(
            message=AIMessageChunk(
                content="",
                tool_call_chunks=[
                    tool_call_chunk(name=one.name, args=one.arguments, id=one.id, index=at)
                    for at, one in enumerate(reply.calls)
                ],
                usage_metadata=_usage(reply),
                response_metadata=self._metadata(reply),
                chunk_position="last",
            )
        )

    def _metadata(self, reply: ChatReply) -> dict[str, Any]:
        return {
            "finish_reason": reply.finish, "model_name": self._chat.name,
            "model_provider": "callmemaybe", **reply.notes,
        }  # fmt: skip


def _openai_choice(choice: str | bool | Mapping[str, Any]) -> str | dict[str, Any]:
    if choice is True:
        return "required"
    if isinstance(choice, str):
        known = _CHOICES.get(choice)
        return known or {"type": "function", "function": {"name": choice}}
    return dict(choice)  # type: ignore[arg-type]


def _as_chat_message(message: BaseMessage) -> dict[str, Any]:
    """Return a message in OpenAI's shape; a result that is marked as an error says so."""
    (found,) = convert_to_openai_messages([message], text_format="string")
    made: dict[str, Any] = dict(found)
    if made.get("role") == "tool" and getattr(message, "status", None) == "error":
        content = made.get("content")
        text = content if isinstance(content, str) else json.dumps(content)
        made["content"] = json.dumps({"ok": False, "detail": text}, ensure_ascii=False)
    return made


def _usage(reply: ChatReply) -> UsageMetadata:
    result = reply.result
    return UsageMetadata(
        input_tokens=result.prompt_tokens, output_tokens=result.tokens,
        total_tokens=result.prompt_tokens + result.tokens,
        input_token_details={"cache_read": result.cached_tokens},
    )  # fmt: skip
