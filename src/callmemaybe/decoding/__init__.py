"""The loop over tokens: what is forced, what the model chooses, and what it costs.

A forward pass of the model is what costs; a mask takes microseconds. So each token comes about in one
of three ways, and every `Step` says in which:

- *forced*: the language allows only one text. Its canonical tokens are accepted without asking the
  model, and are fed later, together with the next token that is chosen.
- *drafted*: the request suggests how the output goes on. The draft is fed along with what must be fed
  anyway; where the model chooses the same token, its logits are already there.
- *chosen*: the model's logits, the matcher's mask, the sampler.

A choice among names is made exactly: the automaton's captures show where names are chosen
(`name_choice.py`), all of them are scored as wholes (`scoring.py`), and the sampler takes one.
`Decoder` is the loop; `strategy.py` draws several outputs or runs a beam search over it, `batch.py` lets
several decoders share forward passes, and the prefix cache feeds what prompts have in common once.

The decoder knows no tool and no wire format, and reads nothing from what it writes; it yields bytes and
captures, and the rooms above turn those into text and calls.
"""

from callmemaybe.decoding.decoder import Decoder, Step
from callmemaybe.decoding.name_choice import NameChoices
from callmemaybe.decoding.sampler import Sampler
from callmemaybe.decoding.scoring import Posterior

__all__ = ["Decoder", "NameChoices", "Posterior", "Sampler", "Step"]
