"""The model in an ``.onnx`` file, and the backend that loads it."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from hashlib import sha256
from pathlib import Path

from callmemaybe.models._model_files import weight_files
from callmemaybe.models.base import Files, Session
from callmemaybe.models.onnx.by_position import ByPositionSession
from callmemaybe.models.onnx.engine import OnnxEngine
from callmemaybe.models.onnx.growing import GrowingSession
from callmemaybe.models.onnx.onnxruntime import VERSION, start
from callmemaybe.models.onnx.session import OnnxSession
from callmemaybe.models.onnx.shared_kv import SharedKVSession

_SAMPLES, _SAMPLE = 64, 16 << 10  # what is read of a weight file to identify it


class OnnxBackend:
    """Serves ``.onnx`` files."""

    suffix = ".onnx"

    def load(
        self,
        weights: Path,
        folder: Path,
        *,
        name: str,
        threads: int | None = None,
        providers: Sequence[str] | None = None,
    ) -> OnnxModel:
        """Load the graph and check that it is a decoder with a cache that can be driven."""
        return OnnxModel(weights, folder, name=name, threads=threads, providers=providers)


MODEL = OnnxBackend()


class OnnxModel:
    """A decoder in an ONNX file, with the files beside it.

    ``threads`` is the number of threads inside an operator (default: one for weights below
    64 MiB, else one per physical core). ``providers`` are onnxruntime's execution providers,
    default the CPU. Raises ModelError if the file is not such a decoder.
    """

    def __init__(
        self,
        weights: Path,
        folder: Path,
        *,
        name: str | None = None,
        threads: int | None = None,
        providers: Sequence[str] | None = None,
        share: bool = True,
    ) -> None:
        self.name = name or str(weights)
        self.files = Files(folder)
        self.context = self.files.context
        self._engine = OnnxEngine(
            start(weights, threads, providers, share), weights, self.files, self.context, share
        )

    @property
    def size(self) -> int:
        """Width of the logits; ids are below it."""
        return self._engine.size

    @property
    def shares(self) -> bool:
        """Whether attention appends to the cache in place."""
        return self._engine.shares

    @cached_property
    def fingerprint(self) -> str:
        """Identifies these weights and this version of the runtime, for stored snapshots."""
        return f"onnx {VERSION} {_digest(self._engine.weights)}"

    def limit_chunks(self, most: int) -> None:
        """Feed no more than ``most`` ids per pass (the default bounds memory)."""
        self._engine.chunk = most

    def open(self) -> Session:
        """Return an empty session."""
        kinds: dict[str, type[OnnxSession]] = {
            "fused": SharedKVSession,
            "by_position": ByPositionSession,
            "growing": GrowingSession,
        }
        return kinds[self._engine.kind](self._engine)

    @property
    def batches(self) -> bool:
        """Whether several sessions can share a pass."""
        return self._engine.may_batch()


def _digest(weights: Path) -> str:
    """Hash the sizes and times of the weight files, and samples of their content."""
    digest = sha256()
    for path in weight_files(weights):
        about = path.stat()
        digest.update(f"{path.name} {about.st_size} {about.st_mtime_ns}".encode())
        with path.open("rb") as file:
            for at in range(_SAMPLES):
                file.seek(at * max(0, about.st_size - _SAMPLE) // (_SAMPLES - 1))
                digest.update(file.read(_SAMPLE))
    return digest.hexdigest()
