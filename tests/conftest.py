"""Every run of the tests has folders of its own for caches and keys, and leaves the user's alone."""

from __future__ import annotations

import os
import shutil
import tempfile

import pytest

from callmemaybe.vocabulary import disk_cache


def pytest_configure(config: pytest.Config) -> None:
    """Let this process, and those that tests start, keep vocabularies in an empty folder."""
    folder = os.environ[disk_cache.ENVIRONMENT_VARIABLE] = tempfile.mkdtemp(
        prefix="callmemaybe-tests-"
    )
    os.environ["XDG_CONFIG_HOME"] = folder
    config.add_cleanup(lambda: shutil.rmtree(folder, ignore_errors=True))
