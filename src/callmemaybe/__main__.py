"""``python -m callmemaybe`` and the command ``callmemaybe``: where the program begins.

Reading the program in takes a moment, and more the first time. Ctrl-C is one line from the start.
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys
from types import FrameType
from typing import NoReturn

_INTERRUPTED = 130  # cli.exits, which is not read in yet


def main() -> NoReturn:
    """Read the program in and run it with the arguments of the process."""
    before = signal.getsignal(signal.SIGINT)
    if before is signal.default_int_handler:  # who ignores it (nohup) goes on ignoring it
        signal.signal(signal.SIGINT, _stop)
    from callmemaybe.cli.main import main as run

    signal.signal(signal.SIGINT, before)
    run()


def _stop(_number: int, _frame: FrameType | None) -> NoReturn:
    """End at once: an exception would have to pass through whatever is being imported."""
    # Standard error may be full, closed, gone, or never have been.
    with contextlib.suppress(OSError, ValueError, AttributeError):
        os.write(sys.stderr.fileno(), b"callmemaybe: stopped\n")
    os._exit(_INTERRUPTED)


if __name__ == "__main__":
    main()
