"""A transfer that survives kill -9: the process dies in the middle, and no cent moves twice or is lost.

The transfer is `transactional`: the two balances and the ledger's record are one commit.
"""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

from callmemaybe.gateway import Gateway, open_ledger
from callmemaybe.tools import ToolCall, Transaction, tool


@tool(effect="transactional", writes=["account:{source}", "account:{target}"], trusted=True)
def transfer(source: str, target: str, cents: int, bank: Transaction) -> str:
    """Move money from one account to another."""
    bank.execute("create table if not exists accounts(name text primary key, cents int not null)")
    for name in (source, target):
        bank.execute("insert into accounts values (?, 1000) on conflict do nothing", (name,))
    bank.execute("update accounts set cents = cents - ? where name = ?", (cents, source))
    if "--die" in sys.argv:
        os.kill(os.getpid(), signal.SIGKILL)  # after the first half, before the second
    bank.execute("update accounts set cents = cents + ? where name = ?", (cents, target))
    return f"{cents} cents from {source} to {target}"


async def deliver(store: str) -> str:
    """Deliver the same order, whether or not it was delivered before."""
    async with Gateway([transfer], store=store) as gateway:
        call = ToolCall("transfer", '{"source": "ada", "target": "bob", "cents": 250}', "1")
        return (await gateway.run([call], run="order-17", turn=0))[0].content


def main() -> None:
    """Die once in the middle, then deliver three times."""
    if "--die" in sys.argv:
        asyncio.run(deliver(sys.argv[1]))
        return
    with tempfile.TemporaryDirectory() as folder:
        store = str(Path(folder) / "bank.db")
        dead = subprocess.run([sys.executable, __file__, store, "--die"], check=False)
        print("the first process ended with", signal.Signals(-dead.returncode).name)
        for _ in range(3):
            print(asyncio.run(deliver(store)))
        ledger = open_ledger(store)
        with ledger.backend.transaction(), ledger.backend.savepoint() as bank:
            rows = bank.execute("select name, cents from accounts order by name").fetchall()
        ledger.close()
        print(rows)
        assert rows == [("ada", 750), ("bob", 1250)]


if __name__ == "__main__":
    main()
