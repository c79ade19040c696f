"""Persons who may sign in at the audit page: a file with a name and the salted hash of a password per line."""

from __future__ import annotations

import hashlib
import hmac
import os
import re
import secrets
import stat
from pathlib import Path

from callmemaybe.errors import InputError, WriteError

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._@+-]{0,63}")
_LINE = re.compile(rf"({_NAME.pattern}):scrypt-15-8-1:([0-9a-f]{{32}}):([0-9a-f]{{64}})")
#: Characters of a password. NIST SP 800-63B asks for length, not for kinds of characters.
MIN_PASSWORD, MAX_PASSWORD = 12, 1024
#: Compared with where there is no such person, so that a name is not found by the time that it takes.
_NOBODY = ("0" * 32, "0" * 64)


class Persons:
    """The persons in a file, read at each use, so that who is taken out of it is out at once.

    Raises InputError, also later, for a file that cannot be read, that others can write, or with a
    line that is none of ours.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        if not _read_persons(self._path):
            raise InputError(
                "nobody is in it", where=str(path),
                hint=f"add persons with `callmemaybe audit person NAME --persons {path}`",
            )  # fmt: skip

    def mark(self, name: str) -> str | None:
        """Return what changes when the password of ``name`` does; None if there is no such person."""
        found = _read_persons(self._path).get(name)
        return None if found is None else "".join(found)

    def check(self, name: str, password: str) -> str | None:
        """Return the mark of ``name`` if this is the password; takes some 0.1 s and 32 MiB."""
        salt, stored = _read_persons(self._path).get(name, _NOBODY)
        is_right = hmac.compare_digest(_hash(password[:MAX_PASSWORD], salt), stored)
        return salt + stored if is_right and stored != _NOBODY[1] else None


def set_password(path: Path, name: str, password: str) -> bool:
    """Add a person to a file, or give one that is there another password; return whether it was added.

    The file is made if there is none, for its owner alone. Raises InputError for a name or a password
    that cannot be, WriteError if the file cannot be written.
    """
    if _NAME.fullmatch(name) is None:
        raise InputError(
            f"{name!r} is no name", where="NAME",
            hint="use up to 64 of A-Z, a-z, 0-9, and . _ @ + - after the first",
        )  # fmt: skip
    if not MIN_PASSWORD <= len(password) <= MAX_PASSWORD:
        raise InputError(
            f"it must have {MIN_PASSWORD} to {MAX_PASSWORD} characters", where="the password"
        )
    before = _read_persons(path) if path.exists() else {}
    salt = secrets.token_hex(16)
    after = {**before, name: (salt, _hash(password, salt))}
    text = "".join(f"{one}:scrypt-15-8-1:{':'.join(two)}\n" for one, two in after.items())
    written = path.with_name(f"{path.name}.{secrets.token_hex(4)}")
    try:
        with os.fdopen(os.open(written, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
            file.write(text)
        written.replace(path)
    except OSError as error:
        raise WriteError(f"{path}: it cannot be written: {error.strerror}") from error
    return name not in before


def _read_persons(path: Path) -> dict[str, tuple[str, str]]:
    try:
        if stat.S_IMODE(path.stat().st_mode) & 0o022:
            raise InputError(
                "others than its owner can write it", where=str(path), hint="chmod 600"
            )
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        why = getattr(error, "strerror", None) or "it is no text"
        raise InputError(f"cannot be read: {why}", where=str(path)) from None
    found: dict[str, tuple[str, str]] = {}
    for number, line in enumerate(lines, 1):
        match = _LINE.fullmatch(line)
        if match is None or match[1] in found:
            raise InputError("this is no person, or one twice", where=f"{path}:{number}")
        found[match[1]] = (match[2], match[3])
    return found


def _hash(password: str, salt: str) -> str:
    return hashlib.scrypt(
        password.encode(errors="surrogatepass"),
        salt=bytes.fromhex(salt), n=1 << 15, r=8, p=1, maxmem=64 << 20, dklen=32,
    ).hex()  # fmt: skip
