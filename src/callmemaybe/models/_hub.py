"""Fetches models from a hub: lists a repository, chooses, downloads only what is needed.

``huggingface_hub`` does the work and honours its usual variables (HF_HOME, HF_ENDPOINT, HF_TOKEN,
HF_HUB_OFFLINE, proxies); every way in which it can fail becomes one ModelError that says what to do.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from callmemaybe.errors import ModelError
from callmemaybe.models import _layouts

REPOSITORY = re.compile(r"([A-Za-z0-9][\w.-]*/[\w.-]+?)(?:@([\w./-]+))?(?::(.+))?")
_CONFIGURATION = ["*.json", "*.jinja"]

Found = tuple[Path, _layouts.Choice]


@dataclass(frozen=True)
class Wanted:
    """A hub name taken apart: ``org/name[@revision][:variant]``."""

    repository: str
    revision: str | None
    variant: str | None

    @classmethod
    def parse(cls, name: str) -> Wanted | None:
        """Return None if ``name`` is not shaped like a hub name."""
        found = REPOSITORY.fullmatch(name)
        return cls(*found.groups()) if found else None

    def command(self, files: tuple[str, ...] = ()) -> str:
        """Return the shell command that fetches the model on a machine with a network."""
        if not files:
            stem = f"*{self.variant}*" if self.variant else "*.onnx*"
            files = (stem, "*.json", "*.jinja")
        include = " ".join(f'--include "{name}"' for name in files)
        revision = f" --revision {self.revision}" if self.revision else ""
        return f"hf download {self.repository}{revision} {include}"


def fetch(wanted: Wanted, *, cache: Path | None, offline: bool | None) -> Found:
    """Return the local folder of a repository and which of its files are the model.

    Without a network what is in the cache is used. Raises ModelError for anything missing.
    """
    from huggingface_hub import constants

    if offline is None:
        offline = constants.HF_HUB_OFFLINE
    choice = None
    reason: Exception | None = None
    if not offline:
        try:
            choice = _layouts.choose(_listing(wanted), wanted.variant, wanted.repository)
            return _snapshot(wanted, cache, [_escape(name) for name in choice.files]), choice
        except ModelError:
            raise
        except Exception as error:
            _refuse(wanted, error)
            reason = error
    try:
        folder = _snapshot(wanted, cache, _CONFIGURATION, offline=True)
    except Exception as error:
        raise ModelError(_absent(wanted, choice, reason)) from (reason or error)
    return _cached(wanted, folder, choice, reason)


def _snapshot(
    wanted: Wanted, cache: Path | None, patterns: list[str], *, offline: bool = False
) -> Path:
    from huggingface_hub import snapshot_download

    folder = snapshot_download(
        wanted.repository,
        revision=wanted.revision,
        cache_dir=cache,
        allow_patterns=patterns,
        local_files_only=offline,
    )
    return Path(folder)


def _cached(
    wanted: Wanted, folder: Path, choice: _layouts.Choice | None, reason: Exception | None
) -> Found:
    """Choose among the files that an earlier download left."""
    present = [path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()]
    if choice is None:
        try:
            choice = _layouts.choose(present, wanted.variant, wanted.repository)
        except ModelError as error:
            raise ModelError(_absent(wanted, None, reason)) from (reason or error)
    missing = sorted(set(choice.files) - set(present))
    if missing:
        raise ModelError(_absent(wanted, choice, reason)) from reason
    return folder, choice


def _listing(wanted: Wanted) -> list[str]:
    from huggingface_hub import HfApi

    return list(HfApi().list_repo_files(wanted.repository, revision=wanted.revision))


def _escape(name: str) -> str:
    """Write a file name as a pattern of fnmatch that matches only it."""
    return re.sub(r"([*?\[])", r"[\1]", name)


def _refuse(wanted: Wanted, error: Exception) -> None:
    """Raise for what no cache can help with; return for a network that does not answer."""
    from huggingface_hub import errors

    name = wanted.repository
    if isinstance(error, errors.GatedRepoError):
        raise ModelError(
            f"{name} is gated: accept its licence on the hub, then set HF_TOKEN or run `hf auth login`"
        ) from error
    if isinstance(error, errors.RevisionNotFoundError):
        raise ModelError(f"{name} has no revision {wanted.revision!r}") from error
    if isinstance(error, errors.RepositoryNotFoundError):
        raise ModelError(
            f"the hub has no model {name!r}, or it is private; check the spelling, or set HF_TOKEN"
        ) from error
    if isinstance(error, errors.HFValidationError):
        raise ModelError(f"{name!r} is not a hub name: {error}") from error


def _absent(wanted: Wanted, choice: _layouts.Choice | None, reason: Exception | None) -> str:
    variant = f":{wanted.variant}" if wanted.variant else ""
    why = "the hub does not answer" if reason else "offline mode is on"
    files = choice.files if choice else ()
    return (
        f"{wanted.repository}{variant} is not in the local cache, and {why}. Fetch it where there "
        f"is a network with\n    {wanted.command(files)}\n"
        "(or copy the model's folder here and name that), or use --model nano, which is built in"
    )
