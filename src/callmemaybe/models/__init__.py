"""Models: ids in, logits out.

A language model is a function from a sequence of token ids to logits, one number for each id that may
come next. Computing it again from the start for every token would be quadratic, so engines keep the
keys and values of the ids they have seen (the KV cache). A :class:`Session` is one such sequence with
its cache: ``feed`` appends ids in one forward pass, ``rewind`` drops the last ones, ``fork`` copies the
session, as far as possible without copying memory, and ``feed_batch`` serves several sessions in one
pass. A :class:`Model` is the frozen network that opens sessions.

One file or folder per engine: ``onnx``, ``gguf``, ``transformers``; ``remote`` talks to a server that
returns text instead of logits; ``scripted`` is the fake for tests. The folder is the registry: a module
with a constant ``MODEL`` (a :class:`base.ModelBackend`) serves the weight files whose ending it names.
An engine's package is imported only in the file named after it, and only when a model is loaded.

Models do not know what ids mean: no grammar, no tool, no token's bytes.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from importlib.resources import files as resources
from pathlib import Path
from typing import cast

from callmemaybe import plugins
from callmemaybe.errors import ModelError
from callmemaybe.models import _hub, _model_files
from callmemaybe.models.base import Files, Logits, Model, ModelBackend, Session

__all__ = ["Files", "Logits", "Model", "ModelBackend", "Session", "fetch", "load", "variants_in"]

EMBEDDED = ("nano",)


def load(
    name: str | Path,
    *,
    cache: str | Path | None = None,
    offline: bool | None = None,
    threads: int | None = None,
    most_threads: int | None = None,
    providers: Sequence[str] | None = None,
) -> Model:
    """Load a model by name; what kind it is follows from its files.

    ``name`` is ``nano`` (the embedded model), a folder or a weight file (``.onnx``, ``.gguf``,
    ``.safetensors``), or a model of a hub as ``org/name[@revision][:variant]``; a folder may be
    followed by ``:variant`` too. A variant is what the file names of the model carry (``q4``,
    ``fp16``, ``int8``, ``Q8_0``, ...), a folder inside, or the kind of weights (``onnx``, ``gguf``,
    ``safetensors``) where there are several; of PyTorch weights it is the precision to run in.
    ``cache`` is where downloads go (default: the hub's own cache). Files that are there are used as they are;
    ``offline=False`` asks the hub for a newer revision, ``True`` never asks (default:
    HF_HUB_OFFLINE). ``threads`` and ``providers`` go to the engine: by default as many threads as
    suit the model's size, on the CPU, but no more than ``most_threads``; other providers are passed on untested. Raises
    ModelError if the model cannot be loaded.
    """
    text = str(name)
    if text.startswith(("http://", "https://")):
        raise ModelError(
            f"{text} is the address of a server: its model gives text, not logits; "
            "load_model() and Caller take it, and so does --model"
        )
    try:
        place = None if cache is None else Path(cache).expanduser()
        folder, weights = _locate(text, place, offline)
    except (OSError, RuntimeError) as error:
        # A folder without permission, a name that is too long, a user without a home.
        why = str(getattr(error, "strerror", None) or error).rstrip(".")
        raise ModelError(
            f"{text} cannot be looked for: {why}; correct the name, or the permissions of its folder"
        ) from error
    backend = _backend(weights)
    if threads is None and most_threads is not None:
        small = _model_files.weight_bytes(weights) < _model_files.SMALL_WEIGHTS
        threads = 1 if small else most_threads
    return backend.load(weights, folder, name=text, threads=threads, providers=providers)


def fetch(name: str, *, cache: str | Path | None = None) -> Path:
    """Fetch the files that ``load(name)`` reads from the hub, or their newest revision; return their folder.

    Files that are there are not fetched again, and are returned where the hub does not answer. Raises ModelError.
    """
    wanted = _hub.HubName.parse(name)
    if wanted is None:
        raise ModelError(f"{name!r} is no name of the hub: write org/name or org/name:variant")
    place = None if cache is None else Path(cache).expanduser()
    folder, _ = _hub.fetch(wanted, cache=place, offline=False)
    return folder


#: The package's own engines by file ending, so that only the needed one is imported.
_ENGINES = {".onnx": "onnx", ".gguf": "gguf", ".safetensors": "transformers"}


def _backend(weights: Path) -> ModelBackend:
    """Return the backend for a weight file: the package's own, else a third party's."""
    own = _ENGINES.get(weights.suffix)
    if own is not None:
        return cast("ModelBackend", plugins.load(__name__, own, "MODEL"))
    known = dict.fromkeys(_ENGINES)
    for name in plugins.names(__name__):
        try:
            backend = cast("ModelBackend", plugins.load(__name__, name, "MODEL"))
        except AttributeError:
            continue  # a module of this folder that is no engine
        if backend.suffix == weights.suffix:
            return backend
        known[backend.suffix] = None
    raise ModelError(
        f"{weights}: no engine for {weights.suffix or 'such'} files here, only for "
        f"{', '.join(sorted(known))}"
    )


def _locate(name: str, cache: Path | None, offline: bool | None) -> tuple[Path, Path]:
    """Return the folder with the model's configuration, and its weight file."""
    if name in EMBEDDED:
        return _in_folder(Path(str(resources("callmemaybe") / "data" / name)), None, name)
    if not name.strip():  # Path("") would be the current folder
        raise ModelError("a model's name is empty; name one, such as nano, a folder or org/name")
    path = Path(name).expanduser()
    if path.is_dir():
        return _in_folder(path, None, name)
    if path.is_file():
        above = path.parent
        return (above.parent if above.name == "onnx" else above), path
    before, colon, variant = name.rpartition(":")
    if colon and Path(before).expanduser().is_dir():
        return _in_folder(Path(before).expanduser(), variant, before)
    wanted = None if name.startswith((".", "/", "~", "\\")) else _hub.HubName.parse(name)
    if wanted is None:
        raise ModelError(
            f"no model {name!r}: not {' or '.join(EMBEDDED)}, no folder or file of that name, "
            "and not shaped like a hub name (org/name or org/name:variant)"
        )
    snapshot, choice = _hub.fetch(wanted, cache=cache, offline=offline)
    return snapshot / choice.folder, snapshot / choice.weights


def _in_folder(folder: Path, variant: str | None, name: str) -> tuple[Path, Path]:
    if not folder.is_dir():
        raise ModelError(f"the embedded model {name!r} is missing from this installation: {folder}")
    present = [
        path.relative_to(folder).as_posix()
        for pattern in ("*", "*/*", "*/*/*")
        for path in folder.glob(pattern)
        if path.is_file()
    ]
    choice = _model_files.choose(present, variant, name)
    return folder / choice.folder, folder / choice.weights


def variants_in(present: Collection[str]) -> list[tuple[str, tuple[str, ...]]]:
    """Return what may follow the colon of a model whose files are ``present``, the default first.

    Each with all files it needs, of which some may be missing. Paths are relative to the model's
    folder, posix style.
    """
    found = []
    for variant in _model_files.variants(present):
        try:
            choice = _model_files.choose(present, variant or "fp32", "")
        except ModelError:
            continue
        shards = _model_files.shards(choice.weights)
        found.append((variant or "fp32", tuple(dict.fromkeys((*choice.files, *shards)))))
    return found
