"""The key of the HMACs over arguments, which is kept outside the ledger that it protects.

A ledger holds the HMACs of arguments that it does not hold itself, a card's number, say. With the key
beside them, whoever has the ledger finds a short number by trying all. The ledger has a check value alone, by which a
process with another key is told so.
"""

from __future__ import annotations

import hmac
import os
import secrets
from pathlib import Path

from callmemaybe.errors import InputError

#: Names a file with the key, instead of the user's own.
ENVIRONMENT_VARIABLE = "CALLMEMAYBE_LEDGER_KEY"
#: Bytes of a key; a shorter one could be found by trying.
_LENGTH = 32


def read_key(path: Path | None = None) -> bytes:
    """Return the key in ``path``, else in the file that the environment names, else the user's own.

    The user's own is made on first use, readable by the user alone. Raises InputError for a file that is missing,
    cannot be read or holds less than 32 bytes.
    """
    given = os.environ.get(ENVIRONMENT_VARIABLE)
    named = path or (Path(given) if given else None)
    where = named or Path("~/.config")
    try:
        if named is None:
            where = user_key_path()
            _make(where)
        key = where.read_bytes()
    except (OSError, RuntimeError) as error:  # RuntimeError: a user without a home
        hint = f"head -c {_LENGTH} /dev/urandom > FILE makes one" if named else ""
        raise InputError(
            f"the ledger's key cannot be read: {getattr(error, 'strerror', error)}",
            where=str(where),
            hint=hint or f"name a file of {_LENGTH} random bytes with {ENVIRONMENT_VARIABLE}",
        ) from None
    if len(key) < _LENGTH:
        raise InputError(
            f"a ledger's key has {_LENGTH} bytes or more, and here are {len(key)}",
            where=str(where), hint=f"head -c {_LENGTH} /dev/urandom > FILE makes one",
        )  # fmt: skip
    return key


def user_key_path() -> Path:
    """Return where the user's own key is, ``~/.config/callmemaybe/ledger.key`` on most systems."""
    base = os.environ.get("XDG_CONFIG_HOME") or (
        os.environ.get("APPDATA") if os.name == "nt" else None
    )
    return (Path(base) if base else Path.home() / ".config") / "callmemaybe" / "ledger.key"


def _make(path: Path) -> None:
    """Make a key unless there is one; of two processes that do so at once, one has made it whole."""
    if path.exists():
        return
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    new = path.with_name(f".{path.name}.{secrets.token_hex(8)}")
    handle = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        with open(handle, "wb") as file:
            file.write(secrets.token_bytes(_LENGTH))
            file.flush()
            os.fsync(file.fileno())
        try:
            os.link(new, path)
        except FileExistsError:
            pass
        except OSError:  # a file system without links
            new.rename(path)
    finally:
        new.unlink(missing_ok=True)


def check_value(key: bytes) -> str:
    """Return what a ledger holds of its key: 16 hexadecimal digits, of which nobody finds 32 random bytes."""
    return hmac.digest(key, b"callmemaybe ledger", "sha256").hex()[:16]
