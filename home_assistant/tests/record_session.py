"""Records a session in the real Home Assistant: ``pytest tests/record_session.py -s -q`` prints what is asked, answered and done."""

from __future__ import annotations

from homeassistant.core import ServiceCall

from .conftest import Ask

REQUESTS = (
    "turn on the kettle",
    "could you get the counter lamp going please",
    "a bit brighter please",
    "would you turn the bedside lamp on and close the curtain",
    "is the front door locked or not",
    "my guests are here, unlock the front door",
    "yes",
    "please heat the living room to 22 degrees",
    "hold on, pause what is playing on the TV",
    "who painted the sistine chapel",
)


async def test_session(ask: Ask, home: dict[str, list[ServiceCall]]) -> None:
    """Ten requests in one conversation."""
    talk = None
    for text in REQUESTS:
        before = {name: len(calls) for name, calls in home.items()}
        result = await ask(text, talk)
        talk = result.conversation_id
        print(f"\n> {text}\n{result.response.speech['plain']['speech']}")
        for name, calls in home.items():
            for call in calls[before.get(name, 0) :]:
                print(f"    {name} {dict(call.data)}")
    assert home
