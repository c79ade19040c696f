"""What the gateway's tests share: an empty store of each kind, and a PostgreSQL of our own."""

from __future__ import annotations

import glob
import itertools
import os
import pwd
import shutil
import socket
import subprocess
import tempfile
from pathlib import Path

import pytest

from callmemaybe.gateway.ledger import Ledger, open_ledger

#: Killing processes needs no disk: the tests that do not measure one spare it.
MEMORY = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None


class Postgres:
    """A cluster in a temporary folder, run by a user that is not root, on a port of its own."""

    def __init__(self, binaries: Path) -> None:
        self._binaries = binaries
        self.folder = Path(tempfile.mkdtemp(prefix="cmm-pg-", dir=MEMORY))
        self._user = None
        if os.geteuid() == 0:
            account = pwd.getpwnam("postgres")
            self._user = "postgres"
            os.chown(self.folder, account.pw_uid, account.pw_gid)
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        self._numbers = itertools.count(1)
        self.run("initdb", "-D", "data", "-A", "trust", "-U", "tester", "--no-sync", "-E", "UTF8")
        self.start()

    def run(self, program: str, *arguments: str) -> None:
        subprocess.run(
            [self._binaries / program, *arguments],
            cwd=self.folder,
            user=self._user,
            check=True,
            capture_output=True,
            timeout=60,
            env={"PATH": os.environ["PATH"], "LC_ALL": "C.UTF-8", "HOME": str(self.folder)},
        )

    def start(self) -> None:
        options = f"-c listen_addresses= -k {self.folder} -p {self.port} -c max_connections=100 -c fsync=off"
        self.run("pg_ctl", "-D", "data", "-w", "-l", "log", "-o", options, "start")

    def stop(self, mode: str = "immediate") -> None:
        self.run("pg_ctl", "-D", "data", "-w", "-m", mode, "stop")

    def address(self, database: str) -> str:
        return f"postgresql://tester@/{database}?host={self.folder}&port={self.port}"

    def fresh(self) -> str:
        """Return the address of a new, empty database."""
        import psycopg

        name = f"d{next(self._numbers)}"
        with psycopg.connect(self.address("postgres"), autocommit=True) as connection:
            connection.execute(f"create database {name}")
        return self.address(name)

    def remove(self) -> None:
        try:
            self.stop()
        finally:
            shutil.rmtree(self.folder, ignore_errors=True)


@pytest.fixture(scope="session")
def postgres():
    """A running PostgreSQL, from Debian's packages or wherever it is installed."""
    pytest.importorskip("psycopg", reason="psycopg is not installed (extra gateway-pg)")
    found = sorted(
        glob.glob("/usr/lib/postgresql/*/bin/initdb"), key=lambda p: float(p.split("/")[4])
    )
    initdb = found[-1] if found else shutil.which("initdb")
    if initdb is None:
        pytest.skip("PostgreSQL is not installed (Debian: apt install postgresql)")
    if os.geteuid() == 0 and "postgres" not in {user.pw_name for user in pwd.getpwall()}:
        pytest.skip("PostgreSQL does not run as root, and there is no user postgres")
    server = Postgres(Path(initdb).parent)
    yield server
    server.remove()


@pytest.fixture(params=["sqlite", "postgresql"])
def store(request):
    """The address of an empty store, of each kind in turn."""
    if request.param == "postgresql":
        yield request.getfixturevalue("postgres").fresh()
        return
    with tempfile.TemporaryDirectory(prefix="cmm-", dir=MEMORY) as folder:
        yield f"{folder}/store.db"


@pytest.fixture
def ledger(store):
    """A ledger on an empty store, of each kind in turn."""
    options = {"reserve": 0} if "://" not in store else {}
    made: Ledger = open_ledger(store, **options)
    yield made
    made.close()
