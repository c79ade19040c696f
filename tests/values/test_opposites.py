"""A function that does the opposite of what a request says is told by pairs of words."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from callmemaybe.values import opposite_in


@pytest.mark.parametrize(
    ("request_", "name", "told", "found"),
    [
        ("Unblock 10.0.0.7", "block_ip", "Block an address", ("unblock", "block")),
        ("unlock the garage, please", "lockDoor", "Lock a door", ("unlock", "lock")),
        ("Switch the lamp in the hall off", "turn_on_light", "Turn on a light", ("turnoff", "turnon")),
        ("Stopping the pump would be good", "start_pump", "Starts a pump", ("stop", "start")),
        ("Remove Ines from the team", "add_user", "Add a user", ("remove", "add")),
    ],
)  # fmt: skip
def test_an_opposite_is_found(request_: str, name: str, told: str, found: tuple[str, str]) -> None:
    """In any form of the word, and in names of any style."""
    assert opposite_in(request_, name, lambda: f"{name} {told}") == found


@pytest.mark.parametrize(
    ("request_", "name", "told"),
    [
        ("Block 10.0.0.7", "block_ip", "Block an address"),
        ("Unblock 10.0.0.7, then block it again", "block_ip", "Block an address"),
        ("Close the door", "open_door", "Open or close a door"),
        ("Delete what I added", "remove_item", "Remove an item"),
        ("Write 'unlock' on the board", "lock_text", "Lock a text"),
        ("Put on some music", "turn_off_light", "Turn off a light"),
        ("Shut the window", "close_window", "Close a window"),
        ("unblock 10.0.0.7", "get_weather", "Weather of a city"),
    ],
)  # fmt: skip
def test_what_does_both_or_is_meant_is_no_opposite(request_: str, name: str, told: str) -> None:
    """Nor what is quoted, nor a word without an opposite."""
    assert opposite_in(request_, name, lambda: f"{name} {told}") is None


@given(st.text(max_size=80))
def test_a_request_that_says_the_word_itself_is_no_opposite(request_: str) -> None:
    """Whatever else it says."""
    assert opposite_in(f"{request_} block it", "block_ip", lambda: "Block an address") is None
