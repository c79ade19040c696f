"""``python -m callmemaybe`` and the command ``callmemaybe``: the entry point.

Imports take a moment; Ctrl-C during them prints one line and no traceback.
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys
from types import FrameType
from typing import NoReturn

_INTERRUPTED = 130  # ExitCode.INTERRUPTED of cli.process, which is not imported yet


def main() -> NoReturn:
    """Import the program and run it with the arguments of the process."""
    before = signal.getsignal(signal.SIGINT)
    if before is signal.default_int_handler:  # an ignored signal (nohup) stays ignored
        signal.signal(signal.SIGINT, _stop)
    from callmemaybe.cli.main import main as run

    signal.signal(signal.SIGINT, before)
    run()


def _stop(_number: int, _frame: FrameType | None) -> NoReturn:
    """Exit at once: an exception would have to pass through whatever is being imported."""
    # Standard error may be full, closed or missing.
    with contextlib.suppress(OSError, ValueError, AttributeError):
        os.write(sys.stderr.fileno(), b"callmemaybe: stopped\n")
    os._exit(_INTERRUPTED)


if __name__ == "__main__":
    main()
