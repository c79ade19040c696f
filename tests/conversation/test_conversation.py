"""Conversations: every committed call has exactly one result, and nothing else can happen."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from callmemaybe.conversation import (
    TRANSITIONS,
    Conversation,
    ConversationEvent,
    ConversationState,
    FinishReason,
    ModelTurn,
    TurnEnded,
    TurnStarted,
    UserMessage,
)
from callmemaybe.conversation.state import diagram, may_follow
from callmemaybe.errors import ConversationError, InputError
from callmemaybe.tools import (
    ArgumentsDelta,
    CallEnded,
    CallStarted,
    TextDelta,
    ThoughtDelta,
    ToolCall,
    ToolResult,
)

IDS = ("a", "b", "c")
SOME_EVENTS: list[ConversationEvent] = [
    UserMessage("user", "hi"),
    UserMessage("system", "be brief"),
    TurnStarted(),
    TextDelta(b"well"),
    ThoughtDelta(b"hm"),
    *(CallStarted(index, "f", i) for i in ("", *IDS) for index in (0, 1)),
    *(ArgumentsDelta(index, b"{}") for index in (0, 1)),
    *(CallEnded(index, ToolCall("f", "{}", i)) for i in IDS for index in (0, 1)),
    *(TurnEnded(reason) for reason in FinishReason),
    *(ToolResult(i, "ok") for i in IDS),
]


def two_calls() -> Conversation:
    """Return a conversation in which calls a and b wait for their results."""
    conversation = Conversation()
    conversation.take_all([UserMessage("user", "do both"), TurnStarted(), TextDelta(b"on it")])
    for index, call_id in enumerate("ab"):
        call = ToolCall("f", '{"x": 1}', call_id)
        deltas = [ArgumentsDelta(index, b'{"x"'), ArgumentsDelta(index, b": 1}")]
        conversation.take_all([CallStarted(index, "f", call_id), *deltas, CallEnded(index, call)])
    conversation.take(TurnEnded(FinishReason.STOP))
    return conversation


@settings(max_examples=300, deadline=None)
@given(st.lists(st.sampled_from(SOME_EVENTS), max_size=30))
def test_no_sequence_of_events_breaks_the_promise(events: list[ConversationEvent]) -> None:
    """Whatever is tried: calls come only from stopped turns, ids are unique, one result per call.

    A refused event changes nothing, the table allows every move, and saving and loading at any point
    between turns gives the same conversation.
    """
    conversation = Conversation()
    for event in events:
        before = (conversation.state, conversation.entries, conversation.pending)
        try:
            conversation.take(event)
        except ConversationError:
            assert (conversation.state, conversation.entries, conversation.pending) == before
        else:
            assert conversation.state in TRANSITIONS[before[0], type(event)]
    turns = [entry for entry in conversation.entries if isinstance(entry, ModelTurn)]
    called = [call.id for turn in turns for call in turn.calls]
    answered = [entry.call_id for entry in conversation.entries if isinstance(entry, ToolResult)]
    assert len(set(called)) == len(called)
    assert len(set(answered)) == len(answered)
    assert set(called) - set(answered) == {call.id for call in conversation.pending}
    assert all(turn.ended is FinishReason.STOP for turn in turns if turn.calls)
    if conversation.state not in (ConversationState.GENERATING, ConversationState.WRITING_CALL):
        again = Conversation.from_json(conversation.to_json())
        assert (again.state, again.entries, again.pending) == (
            conversation.state, conversation.entries, conversation.pending,
        )  # fmt: skip


def test_results_come_in_any_order_and_are_told_in_call_order() -> None:
    """The second result may arrive first; the messages still follow the calls."""
    conversation = two_calls()
    conversation.take(ToolResult("b", "second"))
    assert [call.id for call in conversation.pending] == ["a"]
    assert conversation.state is ConversationState.AWAITING_RESULTS
    conversation.take(ToolResult("a", "first"))
    assert conversation.state is ConversationState.AWAITING_MODEL
    told = [m["content"] for m in conversation.messages() if m["role"] == "tool"]
    assert told == ["first", "second"]
    assert conversation.messages()[1]["tool_calls"][0] == {
        "id": "a", "type": "function", "function": {"name": "f", "arguments": '{"x": 1}'},
    }  # fmt: skip


@pytest.mark.parametrize(
    ("given_", "message"),
    [
        (["b", "b"], "'b' has its result already; waiting for 'a'"),
        (["zzz"], "'zzz' is unknown; waiting for 'a', 'b'"),
    ],
)
def test_wrong_results_are_refused_by_id(given_: list[str], message: str) -> None:
    """Duplicate and unknown ids are named."""
    conversation = two_calls()
    with pytest.raises(ConversationError, match=message):
        conversation.take_all([ToolResult(i, "") for i in given_])


def test_an_unanswered_call_blocks_the_next_turn() -> None:
    """The model is not asked again while a call has no result."""
    conversation = two_calls()
    with pytest.raises(ConversationError, match="awaiting_results; possible now: ToolResult"):
        conversation.take(TurnStarted())


@pytest.mark.parametrize("reason", [r for r in FinishReason if r is not FinishReason.STOP])
def test_a_turn_cut_short_commits_nothing(reason: FinishReason) -> None:
    """Truncation, refusal, cancelling and failure drop even the calls that were closed."""
    conversation = Conversation()
    conversation.take_all([UserMessage("user", "x"), TurnStarted(), CallStarted(0, "f", "a")])
    conversation.take_all([CallEnded(0, ToolCall("f", "{}", "a")), CallStarted(1, "f", "b")])
    conversation.take(ArgumentsDelta(1, b"{"))
    conversation.take(TurnEnded(reason))
    assert conversation.pending == ()
    assert conversation.state is ConversationState.AWAITING_MODEL
    assert conversation.entries[-1] == ModelTurn("", (), reason)


@pytest.mark.parametrize("reason", list(FinishReason))
def test_an_empty_turn_is_told_with_an_empty_text(reason: FinishReason) -> None:
    """No content at all is for turns with calls: templates add it to a text, and cannot add None."""
    conversation = Conversation()
    conversation.take_all([UserMessage("user", "x"), TurnStarted(), TurnEnded(reason)])
    assert conversation.messages()[-1] == {"role": "assistant", "content": ""}
    assert Conversation.from_messages(conversation.messages()).messages() == conversation.messages()
    assert two_calls().messages()[1]["content"] == "on it"
    assert Conversation.from_messages([USER, CALLS]).messages()[1]["content"] is None


def test_a_fragment_is_never_closed() -> None:
    """A call whose arguments are no JSON object, or not those that streamed, is refused."""
    conversation = Conversation()
    conversation.take_all([UserMessage("user", "x"), TurnStarted(), CallStarted(0, "f", "a")])
    conversation.take(ArgumentsDelta(0, b'{"x":'))
    with pytest.raises(InputError):
        conversation.take(CallEnded(0, ToolCall("f", '{"x":', "a")))
    with pytest.raises(ConversationError, match="other arguments"):
        conversation.take(CallEnded(0, ToolCall("f", '{"x": 1}', "a")))
    with pytest.raises(ConversationError, match="middle of call 'a'"):
        conversation.take(TurnEnded(FinishReason.STOP))


USER = {"role": "user", "content": [{"type": "text", "text": "do "}, {"text": "both"}]}
CALLS = {
    "role": "assistant", "content": None,
    "tool_calls": [
        {"id": i, "type": "function", "function": {"name": "f", "arguments": '{"x": 1}'}}
        for i in ("a", "b")
    ],
}  # fmt: skip


def result(call_id: object) -> dict[str, object]:
    return {"role": "tool", "tool_call_id": call_id, "content": f"of {call_id}"}


def test_messages_become_the_conversation_they_tell_of() -> None:
    """Results may come in any order; what is told of it later is the same again."""
    greeting = {"role": "assistant", "content": "Hello"}
    told = [greeting, {"role": "system", "content": "be brief"}, USER, CALLS]
    waiting = Conversation.from_messages(told)
    assert [call.id for call in waiting.pending] == ["a", "b"]
    whole = Conversation.from_messages([*told, result("b"), result("a"), greeting])
    assert whole.state is ConversationState.IDLE
    assert whole.messages()[2] == {"role": "user", "content": "do both"}
    assert [m["tool_call_id"] for m in whole.messages() if m["role"] == "tool"] == ["a", "b"]
    assert Conversation.from_messages(whole.messages()).messages() == whole.messages()


@pytest.mark.parametrize(
    ("messages", "problem"),
    [
        ([USER, CALLS, result("c")], "/messages/2: call 'c' is unknown"),
        ([USER, CALLS, result("a"), result("a")], "/messages/3: call 'a' has its result already"),
        ([USER, CALLS, result("b"), USER], "/messages/3: .* of 'a', which waits"),
        ([USER, result("a")], "/messages/1: ToolResult cannot happen"),
        ([USER, CALLS, result("b"), result("a"), CALLS], "the call id 'a' was used before"),
        ([USER, CALLS, result(None)], "/messages/2/tool_call_id"),
        (["hi"], "/messages/0: a message must be an object"),
        ([{"role": "narrator", "content": "x"}], "/messages/0/role"),
        ([{"role": "user", "content": 3}], "/messages/0/content"),
        ([{"role": "user", "content": [{"type": "image_url"}]}], "/messages/0/content/0"),
        ([{"role": "assistant", "tool_calls": [{}]}], "/messages/0/tool_calls/0"),
        ([{"role": "assistant", "tool_calls": [{"function": {"name": "f"}}]}], "/tool_calls/0/id"),
        ([{"role": "assistant", "tool_calls": [{"function": {"name": 3}}]}], "/function/name"),
        ([{"role": "assistant", "tool_calls": [
            {"id": "a", "function": {"name": "f", "arguments": {}}}]}], "the text of a JSON"),
        ([{"role": "assistant", "tool_calls": [
            {"id": "a", "function": {"name": "f", "arguments": "{"}}]}], "/function/arguments"),
    ],
)  # fmt: skip
def test_messages_that_cannot_be_are_refused_by_place_and_id(messages, problem: str) -> None:
    """A result of no call, a second one, a missing one, an id used twice, what is no message."""
    with pytest.raises((ConversationError, InputError), match=problem):
        Conversation.from_messages(messages)


def test_saving_waits_for_the_end_of_the_turn() -> None:
    """A half-written turn cannot be saved; a foreign or impossible file cannot be loaded."""
    conversation = Conversation()
    conversation.take_all([UserMessage("user", "x"), TurnStarted()])
    with pytest.raises(ConversationError, match="middle of a turn"):
        conversation.to_json()
    for text in ('{"version": 1, "entries": [{"result": "", "id": "a", "error": false}]}', "[]",
                 '{"version": 1, "entries": [{}]}', '{"version": 9}', '{"version": 1, "entries": [3]}'):  # fmt: skip
        with pytest.raises(ConversationError):
            Conversation.from_json(text)


def test_a_conversation_saved_by_the_first_release_still_loads() -> None:
    """The saved form is public: messages, turns with calls, results, and half a surrogate pair."""
    saved = (
        '{"version": 1, "entries": [{"said": "do it", "role": "user"}, {"turn": "on it \\ud83d", "calls":'
        ' [{"id": "a", "name": "f", "arguments": "{\\"x\\": 1}"}], "ended": "stop"},'
        ' {"result": "done", "id": "a", "error": false}, {"turn": "", "calls": [], "ended": "length"}]}'
    )
    conversation = Conversation.from_json(saved)
    assert conversation.entries == (
        UserMessage("user", "do it"),
        ModelTurn("on it \ud83d", (ToolCall("f", '{"x": 1}', "a"),), FinishReason.STOP),
        ToolResult("a", "done"),
        ModelTurn("", (), FinishReason.LENGTH),
    )
    assert conversation.state is ConversationState.AWAITING_MODEL
    assert Conversation.from_json(conversation.to_json()).entries == conversation.entries


def test_a_stream_becomes_a_turn_however_it_is_cut() -> None:
    """Text may be cut inside a character; thoughts are not kept; an id may come with the end of a call."""
    conversation = Conversation()
    conversation.take_all([TurnStarted(), ThoughtDelta(b"hm"), TextDelta(b"na\xc3")])
    conversation.take_all([TextDelta(b"\xafve"), CallStarted(0, "f"), ArgumentsDelta(0, b"{}")])
    with pytest.raises(ConversationError, match="no id"):
        conversation.take(CallEnded(0, ToolCall("f", "{}")))
    with pytest.raises(ConversationError, match="out of order"):
        conversation.take(CallEnded(1, ToolCall("f", "{}", "a")))
    call = ToolCall("f", "{}", "a")
    conversation.take_all([CallEnded(0, call), TextDelta(b"\xc3"), TurnEnded(FinishReason.STOP)])
    assert conversation.entries == (ModelTurn("na\u00efve\ufffd", (call,), FinishReason.STOP),)


def test_every_state_can_be_reached_and_left() -> None:
    """The table has no orphan and no dead end; the diagram shows each of its rows."""
    reached = {target for targets in TRANSITIONS.values() for target in targets}
    assert reached == set(ConversationState)
    assert all(may_follow(state) for state in ConversationState)
    rows = sum(len(targets) for targets in TRANSITIONS.values())
    assert diagram().count("-->") == rows + 1
