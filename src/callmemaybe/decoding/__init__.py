"""The loop that turns logits into tokens the language allows, and says which it chose.

The decoder feeds a model, asks a matcher what may come, and samples. It wastes no forward pass on
what is forced, and decides among names by looking at all of them. It knows no tool and no wire
format: a choice among names is recognised by the captures in the automaton.
"""

from callmemaybe.decoding.decoder import Decoder, Step
from callmemaybe.decoding.name_choice import NameChoices
from callmemaybe.decoding.sampler import Sampler
from callmemaybe.decoding.scoring import Posterior

__all__ = ["Decoder", "NameChoices", "Posterior", "Sampler", "Step"]
