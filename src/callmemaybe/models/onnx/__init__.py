"""Decoders in ONNX files, run by onnxruntime.

A decoder's graph takes ids and a cache of keys and values, and returns logits and the cache with the
new ids in it. Exporters differ in how. What a graph takes and gives is read from its declarations
(:mod:`.graph`), never from its name; what declarations do not promise is tried when the graph is
loaded (:mod:`.engine`). Three kinds of cache are driven, each by a session class of its own:

* ``fused``: attention is one operator (GroupQueryAttention) that appends to the buffer it reads from.
  Sessions share one buffer of cells and one forward pass (:mod:`.shared_kv`); the inputs that this
  needs are added to the graph in memory (:mod:`.graph_rewrite`).
* ``by_position``: the graph writes each id's keys and values at the id's position (ScatterND,
  TensorScatter). Sequences of any lengths share a padded pass (:mod:`.by_position`).
* ``growing``: the cache goes in and comes out longer. This works for any decoder with a cache, and
  copies the cache once per pass (:mod:`.growing`).

Long inputs go through in chunks: most exports return logits for every position, and 151,936 floats a
position add up. This package knows no tokenizer, no grammar and no tool.
"""

from callmemaybe.models.onnx.model import MODEL, OnnxModel

__all__ = ["MODEL", "OnnxModel"]
