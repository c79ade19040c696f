"""From written sources to batches of token ids.

A *block* is a list of tools with requests that share it; a request is paired with the calls it means, or with none. Blocks
are drawn from a seed: the same seed gives the same block, on every machine. `sources/` holds what people wrote, as text;
`generators/` makes up functions; `mixture` draws blocks of both; `packing` turns them into arrays. What is held out is
decided by the recipe, not here, and drawn without the variations that training adds (`Sources.augment`). Nothing here knows
the network or PyTorch.
"""
