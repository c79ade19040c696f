"""A house that can be talked to: `callmemaybe chat --tools examples/gateway_home.py --yes read`.

Looking runs at once, switching is idempotent, the door asks every time.
"""

from __future__ import annotations

import asyncio
from typing import Annotated, Literal

from pydantic import Field

from callmemaybe.gateway import Gateway
from callmemaybe.tools import ToolCall, tool

Room = Literal["kitchen", "bedroom", "hall", "garden"]
HOUSE: dict[str, dict[str, float | bool]] = {
    room: {"light": False, "degrees": 19.0} for room in ("kitchen", "bedroom", "hall", "garden")
}


@tool(effect="read", reads="room:{room}", trusted=True)
async def look_at(room: Room) -> dict[str, float | bool]:
    """Tell whether the light is on in a room, and how warm it is."""
    return HOUSE[room]


@tool(effect="idempotent", writes="room:{room}", trusted=True)
async def switch_light(room: Room, on: bool) -> str:
    """Switch the light of a room on or off.

    Args:
        room: which room
        on: true to switch it on
    """
    HOUSE[room]["light"] = on
    return f"the light in the {room} is {'on' if on else 'off'}"


@tool(effect="idempotent", writes="room:{room}", trusted=True)
async def set_temperature(room: Room, degrees: Annotated[float, Field(ge=5, le=30)]) -> str:
    """Heat or cool a room to so many degrees Celsius."""
    HOUSE[room]["degrees"] = degrees
    return f"{degrees} degrees in the {room}"


@tool(effect="once", writes="door", approval="always")
async def open_door(minutes: Annotated[int, Field(ge=1, le=10)] = 1) -> str:
    """Unlock the front door for a few minutes."""
    return f"open for {minutes} minutes"


async def main() -> None:
    """Run three calls at once; the door waits for a person."""
    tools = [look_at, switch_light, set_temperature, open_door]
    async with Gateway(tools) as gateway:
        answers = await gateway.run(
            [
                ToolCall("switch_light", '{"room": "kitchen", "on": true}', "1"),
                ToolCall("look_at", '{"room": "kitchen"}', "2"),
                ToolCall("open_door", "{}", "3"),
            ]
        )
        for answer in answers:
            print(answer.content)
        assert [answer.code for answer in answers] == ["ok", "ok", "approval_pending"]


if __name__ == "__main__":
    asyncio.run(main())
