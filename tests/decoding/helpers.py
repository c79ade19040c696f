"""A vocabulary small enough to check by hand: all bytes, some longer tokens, some control tokens."""

from __future__ import annotations

from callmemaybe.testing.vocabularies import ByteVocabulary

NANO = (
    "<|tools|>",
    "<|tool|>",
    "<|user|>",
    "<|again|>",
    "<|call|>",
    "<|args|>",
    "<|none|>",
    "<|end|>",
)
CHATML = ("<|im_start|>", "<|im_end|>", "<tool_call>", "</tool_call>", "<think>", "</think>")
#: Pieces that split characters, cross quotes, and span several tokens of JSON.
PIECES = (
    b'{"', b'":', b'", "', b'"}', b'": "', b'": {', b"get", b"_weather", b"weather", b"_time", b"ti",
    b" a", b"ab", b"abc", b"tool", b"name", b"arguments", b'{"name": "', b'", "arguments": ', b"true",
    b"10", b"0.5", b", ", b"\xc3", b"\xa9\"", b"\xf0\x9f", b"}\n", b"<tool", b"_call>",
)  # fmt: skip


def vocabulary(
    controls: tuple[str, ...] = (), ends: tuple[str, ...] = (), more: tuple[bytes, ...] = PIECES
) -> ByteVocabulary:
    """Return a vocabulary of all bytes, ``more`` pieces, and these control tokens."""
    return ByteVocabulary(controls, ends=ends, more=more)
