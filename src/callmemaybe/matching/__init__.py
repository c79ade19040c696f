"""Automata and vocabularies together: which tokens may come next, and what is fixed already.

The one room that knows bytes and tokens. It knows no tool, no wire format, no model, and makes no
choice: a sampler does. Everything is pure: no clock, no randomness, no file, no thread.
"""

from callmemaybe.matching.matcher import Matcher
from callmemaybe.matching.token_set import TokenSet

__all__ = ["Matcher", "TokenSet"]
