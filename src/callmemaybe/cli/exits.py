"""What the program's exit codes mean; the reference in the docs is drawn from this table."""

from __future__ import annotations

from enum import IntEnum
from typing import Self


class Exit(IntEnum):
    """An exit code and what it tells a script."""

    meaning: str

    def __new__(cls, code: int, meaning: str) -> Self:
        """Attach the meaning to the code."""
        member = int.__new__(cls, code)
        member._value_ = code
        member.meaning = meaning
        return member

    DONE = 0, "done; of a run, every prompt has its result"
    SOME_FAILED = 1, "the results are complete, but some prompts got no call; each says why"
    BAD_INPUT = 2, "a file, a function definition or an option is wrong; no model was loaded"
    NO_MODEL = 3, "the model cannot be found, fetched or loaded"
    NOT_WRITTEN = 4, "what was asked for could not be written; the previous file is untouched"
    NO_LEDGER = (
        5,
        "the ledger cannot be read or written any more; what it has recorded stands",
    )
    OUR_FAULT = 70, "a bug in callmemaybe; please report it"
    INTERRUPTED = 130, "stopped by Ctrl-C; what was done is kept, --resume goes on from there"
    TERMINATED = 143, "stopped by SIGTERM; what was done is kept, --resume goes on from there"
