"""What a SQLite ledger keeps beside its file: proof that its owners live, and room for results."""

from __future__ import annotations

import contextlib
import os
import time
from pathlib import Path
from typing import Any

from callmemaybe.gateway.store import StoreError

fcntl: Any
try:
    import fcntl
except ImportError:  # pragma: no cover - Windows: leases alone tell who lives
    fcntl = None


class OwnerFiles:
    """A locked file per living process; the kernel drops the lock however the process dies."""

    def __init__(self, path: Path, owner: str) -> None:
        self._folder = path.with_name(path.name + "-owners")
        self._file = self._folder / owner
        self._handle: int | None = None
        if fcntl is None:  # pragma: no cover
            return
        self._folder.mkdir(mode=0o700, exist_ok=True)
        self._handle = os.open(self._file, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        fcntl.flock(self._handle, fcntl.LOCK_EX | fcntl.LOCK_NB)

    def is_held(self, owner: str) -> bool:
        """Whether the process behind ``owner`` still holds its file."""
        if fcntl is None:  # pragma: no cover
            return True
        try:
            handle = os.open(self._folder / owner, os.O_RDWR | os.O_CLOEXEC)
        except FileNotFoundError:
            return False
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
        finally:
            os.close(handle)
        return False

    def close(self) -> None:
        """Let go, leaving nothing behind."""
        if self._handle is not None:
            self._file.unlink(missing_ok=True)
            os.close(self._handle)
            self._handle = None


class Reserve:
    """A file of blocks that is given up for results on the day the disk is full."""

    def __init__(self, path: Path, size: int) -> None:
        self._file = path.with_name(path.name + "-reserve")
        self._size = size
        self.keep()

    def keep(self) -> bool:
        """Have the reserve; False if there is no room for it."""
        if not self._size or self._file.exists():
            return True
        try:
            handle = os.open(self._file, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError:
            return False
        try:
            if hasattr(os, "posix_fallocate"):
                os.posix_fallocate(handle, 0, self._size)
            else:  # pragma: no cover - macOS
                os.write(handle, b"\0" * self._size)
        except OSError:
            self.give_up()
            return False
        finally:
            os.close(handle)
        return True

    def give_up(self) -> bool:
        """Delete the reserve; False if there was none."""
        if not self._file.exists():
            return False
        with contextlib.suppress(FileNotFoundError):
            self._file.unlink()
        return True


def make_private(path: Path) -> None:
    """Create the file for its owner only; SQLite's WAL inherits the mode."""
    try:
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600))
    except OSError as error:
        raise StoreError(f"{path}: the ledger cannot be opened ({error.strerror})") from None


def boot_id() -> str:
    """Return what changes with every boot: monotonic times compare only within one."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
    except OSError:  # pragma: no cover - not Linux
        return str(int(time.time() - time.monotonic()) // 10)
