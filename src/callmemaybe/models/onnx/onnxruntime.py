"""The only file that imports onnxruntime: starts a graph, views arrays as its tensors.

A graph with fused attention is rewritten in memory before it starts (:mod:`.graph_rewrite`).
"""

from __future__ import annotations

import mmap
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import onnxruntime as ort

from callmemaybe.errors import ModelError
from callmemaybe.models._model_files import SMALL_WEIGHTS, weight_bytes, weight_files
from callmemaybe.models.base import Array
from callmemaybe.models.onnx.graph_rewrite import rewrite

VERSION: str = ort.__version__
_EXTERNAL_FOLDER = "session.model_external_initializers_file_folder_path"
#: Without VNNI, onnxruntime's products of 8-bit integers saturate in 16 bits unless this is set (ONNX Runtime, "Quantize
#: ONNX Models": U8S8 on AVX2). It changes nothing on newer processors.
_EXACT_PRODUCTS = "session.x64quantprecision"
_FATAL_ONLY = 4  # a probe that fails is expected, so onnxruntime does not log it


def start(
    weights: Path, threads: int | None, providers: Sequence[str] | None, share: bool
) -> ort.InferenceSession:
    """Start a graph, rewritten where that helps and ``share`` allows it.

    Raises ModelError for a provider that is not installed, or a file that cannot be loaded.
    """
    if threads is None:
        threads = 1 if weight_bytes(weights) < SMALL_WEIGHTS else 0
    chosen = list(providers or ["CPUExecutionProvider"])
    missing = [name for name in chosen if name not in ort.get_available_providers()]
    if missing:
        raise ModelError(
            f"this onnxruntime has no {missing[0]}; it has {', '.join(ort.get_available_providers())}"
        )
    more = _rewritten(weights) if share and chosen[0] == "CPUExecutionProvider" else None
    if more is not None:
        try:
            return _start_rewritten(more, weights, _settings(threads), chosen)
        except Exception:
            more = None  # this version of the operator may lack the inputs; try the file as it is
    try:
        return ort.InferenceSession(str(weights), _settings(threads), providers=chosen)
    except Exception as error:
        raise ModelError(f"{weights} cannot be loaded: {first_line(error)}") from error


def _settings(threads: int) -> ort.SessionOptions:
    options = ort.SessionOptions()
    options.log_severity_level = 3
    options.intra_op_num_threads = threads
    options.add_session_config_entry(_EXACT_PRODUCTS, "1")
    return options


def _start_rewritten(
    graph: bytes, weights: Path, options: ort.SessionOptions, providers: Sequence[str]
) -> ort.InferenceSession:
    """Start a graph given as bytes, with the external data beside ``weights``."""
    beside = [path for path in weight_files(weights) if path != weights and path.stat().st_size]
    if not any(path.is_symlink() for path in beside):
        options.add_session_config_entry(_EXTERNAL_FOLDER, str(weights.parent.resolve()))
        return ort.InferenceSession(graph, options, providers=providers)
    # In the hub's cache these are links out of the folder; onnxruntime refuses those, but takes bytes.
    mapped = [np.memmap(path, np.uint8, "r") for path in beside]
    names, sizes = [path.name for path in beside], [len(data) for data in mapped]
    options.add_external_initializers_from_files_in_memory(names, mapped, sizes)
    session = ort.InferenceSession(graph, options, providers=providers)
    del mapped  # the start has copied it
    return session


def has_fused_attention(content: mmap.mmap) -> bool:
    """Whether a graph has the operator that can append to its cache in place."""
    return content.find(b"GroupQueryAttention") >= 0


def _rewritten(weights: Path) -> bytes | None:
    """Return the model with the inputs that exporters leave out; None where there is nothing to do."""
    try:
        with (
            weights.open("rb") as file,
            mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content,
        ):
            if not has_fused_attention(content):
                return None
            with memoryview(content) as whole:
                pieces = rewrite(whole)
                found = None if pieces is None else b"".join(pieces)
                for piece in pieces or ():
                    if isinstance(piece, memoryview):
                        piece.release()
                return found
    except (OSError, ValueError):
        return None  # onnxruntime reports it better when it starts the file


def first_line(error: Exception) -> str:
    """Return the first line of onnxruntime's message, at most 400 characters."""
    return str(error).strip().split("\n", 1)[0][:400]


def wrap(array: Array) -> ort.OrtValue:
    """Return an onnxruntime value that views the array's memory; the array must outlive it."""
    return ort.OrtValue.ortvalue_from_numpy(array)


def run_options(quiet: bool) -> ort.RunOptions | None:
    """Return the options of one run; ``quiet`` for a run that may fail."""
    if not quiet:
        return None  # the session's own; looking up an option costs as much as a small operator
    options = ort.RunOptions()
    options.log_severity_level = _FATAL_ONLY
    return options
