"""The embedded model, trained further on the functions of a user.

::

    from callmemaybe.tuning import Example, ExampleCall, TuneSettings, tune
    tune(tools, [Example("a table for four", (ExampleCall("book_table", {"people": 4}),))], output="my-model")

:func:`tune` moves all weights of the network a little, on requests for these functions and on what it was trained on before,
and writes the folder of a model, which loads wherever ``nano`` does. The network and its steps (:mod:`callmemaybe.tuning.network`)
need the extra ``tune`` (PyTorch), as does changing the graph (:mod:`callmemaybe.tuning.graph_weights`, onnx); nothing here is
needed to make calls. ``training/`` imports the network from here.
"""

from callmemaybe.tuning.examples import Example, ExampleCall, parse_examples
from callmemaybe.tuning.tuner import TuneProgress, TuneResult, TuneSettings, tune

__all__ = [
    "Example", "ExampleCall", "TuneProgress", "TuneResult", "TuneSettings", "parse_examples", "tune",
]  # fmt: skip
