"""One turn of a model: from messages, tools and a spec of the output to calls, text and their probabilities.

The problem: a model reads token ids and gives logits; a caller has messages and functions. Between them a
wire format writes the prompt and says which texts are answers; a grammar made from it masks tokens while
they are decoded; a reader turns what was written into events and calls; a validator checks what no grammar
can say. This room puts these four together, once, for every user above it.

The data structures: a :class:`~callmemaybe.generation.constraint.Constraint` is what a turn may be,
compiled and cached by the content of tools and spec. A :class:`~callmemaybe.generation.turn.TurnStream`
is a turn being generated, one decoding step at a time, so that its driver decides how to wait. A
:class:`~callmemaybe.generation.result.TurnResult` is the whole turn; its calls are committed only if the
turn ended by itself.

One protocol, :class:`~callmemaybe.generation.turn.TurnGenerator`, serves a model in this process
(``LocalGenerator``) and one behind a server (``RemoteGenerator``). A single request (``Caller.call``) is
a turn whose call is required; ``best_of`` and ``beam`` are strategies of it.

What the room does not know: what a conversation may do next, who runs the calls, HTTP, the command line.
"""

from callmemaybe.generation.config import DecodingConfig
from callmemaybe.generation.local import LocalGenerator
from callmemaybe.generation.remote import RemoteGenerator
from callmemaybe.generation.result import CallResult, TokenLogprob, TurnResult
from callmemaybe.generation.turn import TurnGenerator, TurnStream

__all__ = [
    "CallResult",
    "DecodingConfig",
    "LocalGenerator",
    "RemoteGenerator",
    "TokenLogprob",
    "TurnGenerator",
    "TurnResult",
    "TurnStream",
]
