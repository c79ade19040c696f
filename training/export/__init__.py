"""From a checkpoint to the files that the package ships.

The trained network reads whole batches; the shipped one reads a few ids at a time over a cache that it writes in place.
`cached_network` computes the same answers in that form, `token_features` derives from the ids what training knows from the
batch, and `onnx_graph` traces both into an ONNX graph with integer weights. `model_folder` adds tokenizer, card and
manifest, and copies a measured model into the package when asked for a release. The `qwen3_*` modules write graphs of
another architecture, for tests and for bigger models; they share nothing with the network of `nn`.
"""
