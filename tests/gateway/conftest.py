"""What the gateway's tests share."""

from __future__ import annotations

import pytest

from callmemaybe.gateway.audit import open_ledger
from callmemaybe.gateway.ledger import Ledger


@pytest.fixture
def ledger(tmp_path):
    """A ledger in a file of its own."""
    made: Ledger = open_ledger(str(tmp_path / "ledger.db"), reserve=0)
    yield made
    made.close()


@pytest.fixture
def store(tmp_path):
    """The address of an empty store."""
    return str(tmp_path / "store.db")
