"""The key of the HMACs over arguments is not in the ledger, and who has another is told so."""

from __future__ import annotations

import asyncio
import itertools
import json
import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from callmemaybe.errors import InputError
from callmemaybe.gateway import Gateway
from callmemaybe.gateway.keys import Mac
from callmemaybe.gateway.ledger_key import (
    ENVIRONMENT_VARIABLE,
    check_value,
    read_key,
    user_key_path,
)
from callmemaybe.tools import ToolCall, tool


@tool(effect="once", writes="door", sensitive="pin")
async def unlock(pin: str) -> int:
    """Unlock."""
    return len(pin)


def deliver(store: str, pin: str = "4711", **more: object) -> str:
    """Deliver one call under the same run and turn; return its code."""

    async def go() -> str:
        async with Gateway([unlock], store=store, **more) as gateway:  # type: ignore[arg-type]
            (answer,) = await gateway.run(
                [ToolCall("unlock", json.dumps({"pin": pin}))], run="r", turn=0
            )
            return answer.code

    return asyncio.run(go())


def test_a_ledger_does_not_tell_a_short_secret(tmp_path: Path) -> None:
    """No bytes of it are a key under which one of all four-digit numbers has an HMAC that it holds."""
    store = tmp_path / "house.db"
    assert deliver(str(store)) == "ok"
    assert deliver(str(store)) == "ok"
    assert deliver(str(store), "4712") == "key_conflict"
    import apsw

    file = apsw.Connection(str(store))
    macs = {mac for (mac,) in file.execute("select mac from calls")}
    assert macs == {Mac(read_key()).of({"pin": "4711"})}
    tables = [
        name for (name,) in file.execute("select name from sqlite_master where type = 'table'")
    ]
    found = set()
    for table in tables:
        for row in file.execute(f"select * from {table}"):
            found |= {
                value.encode() if isinstance(value, str) else value
                for value in row
                if isinstance(value, (str, bytes))
            }
    keys = (
        found | {bytes.fromhex(one.decode()) for one in found if _is_hex(one)} | {b"", b"\0" * 32}
    )
    for key, pin in itertools.product(keys, ("4711",)):
        assert Mac(key).of({"pin": pin}) not in macs
    assert read_key() not in store.read_bytes()


def _is_hex(text: bytes) -> bool:
    try:
        bytes.fromhex(text.decode())
    except ValueError:
        return False
    return True


def test_the_users_key_is_made_once_and_private(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ten processes that begin at once read one key, which nobody else may read."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    program = "from callmemaybe.gateway.ledger_key import *; print(check_value(read_key()))"
    started = [
        subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE) for _ in range(10)
    ]
    assert len({one.communicate()[0] for one in started}) == 1
    assert stat.S_IMODE(user_key_path().stat().st_mode) == 0o600
    assert os.listdir(user_key_path().parent) == ["ledger.key"]


def test_another_key_is_refused_until_it_is_replaced(
    store: str, tmp_path: Path, monkeypatch
) -> None:
    """A process with another key is told so before it does anything; with a lost key one can go on."""
    assert deliver(store) == "ok"
    other = tmp_path / "other.key"
    other.write_bytes(os.urandom(32))
    with pytest.raises(
        InputError, match=f"{check_value(read_key())}.*{check_value(other.read_bytes())}"
    ):
        deliver(store, ledger_key=other)
    monkeypatch.setenv(ENVIRONMENT_VARIABLE, str(other))
    with pytest.raises(InputError, match="begun with another key"):
        deliver(store)
    from callmemaybe.gateway.ledger import open_ledger

    opened = open_ledger(store)
    assert opened.replace_key() == check_value(other.read_bytes())
    opened.close()
    assert deliver(store) == "key_conflict"
    monkeypatch.delenv(ENVIRONMENT_VARIABLE)
    with pytest.raises(InputError, match="begun with another key"):
        deliver(store)


@pytest.mark.parametrize(
    ("content", "why"), [(None, "No such file"), (b"short", "32 bytes or more, and here are 5")]
)
def test_a_bad_key_file_is_said(tmp_path: Path, content: bytes | None, why: str) -> None:
    """One sentence names the file and how to make one."""
    path = tmp_path / "key"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(InputError, match=why) as caught:
        read_key(path)
    assert str(path) in str(caught.value)
    assert "/dev/urandom" in str(caught.value)


def test_a_folder_that_cannot_be_written_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where there is no place for the user's own key, the variable is named."""
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "file"))
    with pytest.raises(InputError, match=ENVIRONMENT_VARIABLE):
        read_key()
