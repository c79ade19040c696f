"""Fetches models from a hub: lists a repository, chooses files, downloads only those.

``huggingface_hub`` does the work and reads its usual variables (HF_HOME, HF_ENDPOINT, HF_TOKEN,
HF_HUB_OFFLINE, proxies). Each of its errors becomes a ModelError that says what to do.
"""

from __future__ import annotations

import errno
import mmap
import re
from dataclasses import dataclass
from pathlib import Path

from callmemaybe.errors import ModelError
from callmemaybe.models import _model_files

REPOSITORY = re.compile(r"([A-Za-z0-9][\w.-]*/[\w.-]+?)(?:@([\w./-]+))?(?::(.+))?")
_CONFIGURATION = ["*.json", "*.jinja"]
#: Errors of a file system that cannot be written.
_UNWRITABLE = frozenset(
    (errno.EACCES, errno.EDQUOT, errno.EFBIG, errno.ENOSPC, errno.ENOTDIR, errno.EPERM, errno.EROFS)
)

FetchedModel = tuple[Path, _model_files.WeightFiles]


@dataclass(frozen=True)
class HubName:
    """A hub name taken apart: ``org/name[@revision][:variant]``."""

    repository: str
    revision: str | None
    variant: str | None

    @classmethod
    def parse(cls, name: str) -> HubName | None:
        """Return None if ``name`` is not shaped like a hub name."""
        found = REPOSITORY.fullmatch(name)
        return cls(*found.groups()) if found else None

    def __str__(self) -> str:
        revision = f"@{self.revision}" if self.revision else ""
        variant = f":{self.variant}" if self.variant else ""
        return f"{self.repository}{revision}{variant}"


def fetch(hub_name: HubName, *, cache: Path | None, offline: bool | None) -> FetchedModel:
    """Return the local folder of a repository and which of its files are the model.

    A cached model is used without asking the hub, unless ``offline`` is False; then the hub is
    asked for a newer revision, and the cache is used if it does not answer. Raises ModelError if
    files are missing.
    """
    from huggingface_hub import constants

    cached = None if offline is False else _cached(hub_name, cache)
    if cached is not None:
        return cached
    if offline or (offline is None and constants.HF_HUB_OFFLINE):
        raise ModelError(_absent(hub_name, "offline mode is on"))
    try:
        choice = _model_files.choose(_listing(hub_name), hub_name.variant, hub_name.repository)
        return _download(hub_name, cache, choice), choice
    except ModelError:
        raise
    except Exception as error:
        _refuse(hub_name, error)
        cached = _cached(hub_name, cache)
        if cached is not None:
            return cached
        if isinstance(error, OSError) and error.errno in _UNWRITABLE:
            raise ModelError(
                f"{cache or constants.HF_HUB_CACHE} cannot be written: {error}; make room there, "
                "correct its permissions, or name another folder by HF_HOME"
            ) from error
        reason = f"the hub does not answer ({_first_line(error)})"
        raise ModelError(_absent(hub_name, reason)) from error


def _cached(hub_name: HubName, cache: Path | None) -> FetchedModel | None:
    """Return the model in the cache, if it is complete."""
    try:
        folder = _snapshot(hub_name, cache, _CONFIGURATION, offline=True)
        present = [path.relative_to(folder).as_posix() for path in folder.rglob("*")]
        choice = _model_files.choose(present, hub_name.variant, hub_name.repository)
    except Exception:
        return None
    settings = [folder / choice.folder / name for name in ("config.json", "genai_config.json")]
    is_whole = choice.weights.endswith(".gguf") or any(path.exists() for path in settings)
    if not is_whole or _is_incomplete(folder, choice):
        return None  # a download that was interrupted
    return folder, choice


def _is_incomplete(folder: Path, choice: _model_files.WeightFiles) -> bool:
    """Whether weight files are missing: shards, or external data that a graph refers to."""
    weights = folder / choice.weights
    if weights.suffix != ".onnx":
        return not all(_has_content(folder / name) for name in _model_files.shards(choice.weights))
    named = re.compile(re.escape(weights.name).encode() + rb"(?:_data|\.data)(?:_\d+)?")
    try:
        with (
            weights.open("rb") as file,
            mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as graph,
        ):
            found = set(named.findall(graph))
    except (OSError, ValueError):
        return True  # a dangling link, or an empty file
    return not all(_has_content(weights.with_name(name.decode())) for name in found)


def _has_content(path: Path) -> bool:
    """Whether a file exists and is not empty; a crash may leave empty files."""
    try:
        return path.stat().st_size > 0
    except OSError:
        return False


def _download(hub_name: HubName, cache: Path | None, choice: _model_files.WeightFiles) -> Path:
    """Fetch those of the chosen files that are missing; return their folder."""
    folder = _snapshot(hub_name, cache, [_escape(name) for name in choice.files])
    empty = [_escape(name) for name in choice.files if not _has_content(folder / name)]
    if empty:  # the hub's client takes an empty file for complete
        _snapshot(hub_name, cache, empty, force=True)
    return folder


def _snapshot(
    hub_name: HubName,
    cache: Path | None,
    patterns: list[str],
    *,
    offline: bool = False,
    force: bool = False,
) -> Path:
    from huggingface_hub import snapshot_download

    folder = snapshot_download(
        hub_name.repository,
        revision=hub_name.revision,
        cache_dir=cache,
        allow_patterns=patterns,
        local_files_only=offline,
        force_download=force,
    )
    return Path(folder)


def _listing(hub_name: HubName) -> list[str]:
    # One request; the method that only lists files retries for half a minute without a network.
    from huggingface_hub import HfApi

    info = HfApi().model_info(hub_name.repository, revision=hub_name.revision, timeout=20)
    return [file.rfilename for file in info.siblings or ()]


def _first_line(error: Exception) -> str:
    text = str(error).strip() or type(error).__name__
    return text.split("\n", 1)[0][:200]


def _escape(name: str) -> str:
    """Write a file name as a pattern of fnmatch that matches only it."""
    return re.sub(r"([*?\[])", r"[\1]", name)


def _refuse(hub_name: HubName, error: Exception) -> None:
    """Raise for errors that a cached model cannot help with; return for a network failure."""
    from huggingface_hub import errors

    name = hub_name.repository
    if isinstance(error, errors.GatedRepoError):
        raise ModelError(
            f"{name} is gated: accept its licence on the hub, then set HF_TOKEN or run `hf auth login`"
        ) from error
    if isinstance(error, errors.RevisionNotFoundError):
        raise ModelError(f"{name} has no revision {hub_name.revision!r}") from error
    if isinstance(error, errors.RepositoryNotFoundError):
        raise ModelError(
            f"the hub has no model {name!r}, or it is private; check the spelling, or set HF_TOKEN"
        ) from error
    if isinstance(error, errors.HFValidationError):
        raise ModelError(f"{name!r} is not a hub name: {error}") from error


def _absent(hub_name: HubName, why: str) -> str:
    return (
        f"{hub_name} is not in the local cache, and {why}. Where there is a network, `callmemaybe models "
        f"pull {hub_name}` fetches the files that it needs and says in which folder they are: copy that "
        "here and name it; or use --model nano, which is built in"
    )
