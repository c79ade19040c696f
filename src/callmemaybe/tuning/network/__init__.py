"""The network of the embedded model and its loss, in PyTorch (the extra `tune`).

A batch is a bag of short segments: tools, requests, answers. Attention never crosses a segment but where an answer looks at
its request and its tool. Tools are chosen by votes of the request's tokens; values are written or copied by pointers
(`model`). Names of weights and buffers (`votes.told`, `pointer.begun`, ...) are those of existing checkpoints and of the
shipped graph, so they stay. The network does not know words: it sees bases and forms of tokens, and vectors of meaning that
are found before training. Only this folder imports PyTorch; `training/`, which made the shipped weights, trains the same
network.
"""
