"""Functions that do the opposite of what a request says: ``block_ip`` for "unblock 10.0.0.7".

A small model finds them near: everything but one word is the same. So pairs of words that say opposite things are looked up.
A function does the opposite if its name has a word of which the request has only the opposite, and nothing of the function says
that it does this, too (``set_door``, "opens or closes").
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

#: What the sentence has that says why such a function is not called.
OPPOSITE = "the opposite of what the request says"
#: Pairs of opposites; of words with "/" each means the same.
_PAIRS = """lock unlock|block unblock|mute unmute|open close/shut|start stop|enable disable|activate deactivate|add remove/delete
    |subscribe unsubscribe|follow unfollow|install uninstall|increase/raise decrease/lower/reduce|pause resume/unpause|encrypt decrypt
    |compress decompress/uncompress|mount unmount|pin unpin|archive unarchive|upvote downvote|buy sell|deposit withdraw|ban unban
    |connect disconnect|attach detach|show hide|like unlike|login logout|upload download|import export|arm disarm|expand collapse
    |load unload|encode decode|zip unzip|hire fire|approve reject|accept decline/reject|grant revoke|turnon turnoff|freeze unfreeze
    |assign unassign|friend unfriend|register unregister/deregister|link unlink|push pop|checkin checkout"""
_OPPOSITES: dict[str, set[str]] = {}
for _pair in _PAIRS.replace("\n", "").split("|"):
    _left, _right = (side.split("/") for side in _pair.split())
    for _one in _left:
        _OPPOSITES.setdefault(_one, set()).update(_right)
    for _one in _right:
        _OPPOSITES.setdefault(_one, set()).update(_left)
_FORMS: dict[str, str] = {}
for _word in _OPPOSITES:
    _stem = _word.removesuffix("e")
    for _form in (
        _word,
        f"{_word}s",
        f"{_word}es",
        f"{_stem}ed",
        f"{_stem}ing",
        f"{_word}{_word[-1]}ed",
        f"{_word}{_word[-1]}ing",
    ):
        _FORMS.setdefault(_form, _word)
_WORD = re.compile(r"[a-z]+")
_HUMP = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
_QUOTED = re.compile(r"\"[^\"]*\"|“[^”]*”|`[^`]*`|(?<!\w)'[^']*'(?!\w)")
#: "Turn the radio off" and "switch on".
_SWITCH = re.compile(r"\b(?:turn|switch|power)(?:s|ed|ing)?\b(?: [\w'-]+){0,5}? (on|off)\b")
_BOTH = re.compile(r"\b(log|check)(?:s|ged|ed|ging|ing)? ?-?(in|out)\b")


def opposite_in(request: str, name: str, told: Callable[[], str]) -> tuple[str, str] | None:
    """Return a word of a request and its opposite in a function's ``name``; None if the function does not do the opposite.

    ``told`` returns all that is told of the function; it is asked only where the name has an opposite in the request.

    >>> opposite_in("Unblock 10.0.0.7", "block_ip", lambda: "Block an address")
    ('unblock', 'block')
    """
    named = _opposable(_HUMP.sub(" ", name).replace("_", " "))
    if not named:
        return None
    asked = _opposable(_QUOTED.sub(" ", request))
    if not any(_OPPOSITES[word] & asked for word in named):
        return None
    said = _opposable(_HUMP.sub(" ", told()).replace("_", " "))
    for word in sorted(named):
        for other in sorted(_OPPOSITES[word] & asked):
            if not (asked & {word, *_same(word, other)} or said & {other, *_same(other, word)}):
                return other, word
    return None


def _same(word: str, opposite: str) -> set[str]:
    """Return what means the same as a word: what has the same opposite."""
    return _OPPOSITES[opposite] if word in _OPPOSITES[opposite] else {word}


def _opposable(text: str) -> set[str]:
    return set(_words(text.lower()))


def _words(text: str) -> Iterator[str]:
    for word in _WORD.findall(text):
        if word in _FORMS:
            yield _FORMS[word]
    for way in _SWITCH.findall(text):
        yield f"turn{way}"
    for verb, way in _BOTH.findall(text):
        yield f"{verb}{way}"
