"""Start a model with a circuit that copies, instead of waiting for one to form.

Copying in transformers is done by an induction circuit (Olsson et al., 2022): a head that notes for
each place which token came before it, and a later head that looks for places noted with the current
token and repeats what stands there. Forming by gradient descent took 4 to 10 minutes of a run of 70;
written down it costs nothing, and training goes on from there with every weight free.

Layer 0, head 0 looks one place back by rotary phase alone: queries and keys are constant (read from a
coordinate that all embeddings share), turned against each other by one place, in the six fastest
pairs. It writes what it saw to coordinates that embeddings leave empty. Layer 1, heads 0 and 2,
compare that note with the current token in the slowest pairs, where distance hardly matters.
"""

from __future__ import annotations

import torch
from torch import Tensor

from training.pieces.model import Nano

FAST = 6  # rotary pairs that find the previous place
SLOW = 10  # rotary pairs that compare tokens
SHARED = 2.0  # value of the coordinate all embeddings share
GAIN_BACK, GAIN_MATCH = 4.0, 3.0
WRITE = 3.0  # strength of what the copying heads write


def orthonormal(rows: int, columns: int) -> Tensor:
    return torch.linalg.qr(torch.randn(columns, rows))[0].T


@torch.no_grad()
def copying(model: Nano) -> None:
    """Write the circuit into the first two layers; everything else stays as it is."""
    shape = model.shape
    head, half, width = shape.head, shape.head // 2, shape.width
    note = slice(width - head, width)
    embedding = model.model["embed_tokens"].weight
    embedding[:, note] *= 0.05
    embedding[:, 0] = SHARED
    first, second = (model.model["layers"][i].self_attn for i in (0, 1))
    read = torch.zeros(head, width)
    read[:, 1 : width - head] = torch.randn(head, width - head - 1) * width**-0.5

    back_q, back_k = torch.zeros(head), torch.zeros(head)
    phase = model.frequencies[:FAST]
    back_q[:FAST], back_q[half : half + FAST] = phase.cos(), -phase.sin()
    back_k[:FAST] = 1.0
    for projection, pattern in ((first.q_proj, back_q), (first.k_proj, back_k)):
        projection.weight[:head] = 0
        projection.weight[:head, 0] = pattern
    fast = torch.cat((torch.arange(FAST), torch.arange(FAST) + half))
    first.q_norm.weight[fast] = first.k_norm.weight[fast] = GAIN_BACK
    first.v_proj.weight[:head] = read
    first.o_proj.weight[note, :head] = torch.eye(head)

    slow = torch.cat((torch.arange(half - SLOW, half), torch.arange(head - SLOW, head)))
    code = torch.randn(2 * SLOW, head) * head**-0.5
    group = shape.heads // shape.kv_heads
    for kv in range(shape.kv_heads):
        keys, queries = (
            slice(kv * head, (kv + 1) * head),
            slice(kv * group * head, (kv * group + 1) * head),
        )
        second.k_proj.weight[keys] = 0
        second.k_proj.weight[kv * head + slow, width - head :] = code
        second.q_proj.weight[queries] = 0
        second.q_proj.weight[kv * group * head + slow] = code @ read
        take = torch.zeros(head, width)
        take[:, 1 : width - head] = orthonormal(head, width - head - 1)
        second.v_proj.weight[keys] = take
        second.o_proj.weight[:, queries] = WRITE * take.T
    second.q_norm.weight[slow] = second.k_norm.weight[slow] = GAIN_MATCH
