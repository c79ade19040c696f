"""Decoders in ONNX files, run by onnxruntime."""

from callmemaybe.models.onnx.model import MODEL, OnnxModel

__all__ = ["MODEL", "OnnxModel"]
