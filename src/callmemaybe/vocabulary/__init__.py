"""Tokens as bytes: reading vocabularies, encoding text canonically, finding tokens by prefix.

This room knows no grammar, no automaton and no model. A control token is a name, never bytes: text
that happens to spell it is text.
"""

from callmemaybe.vocabulary.vocabulary import Vocabulary

__all__ = ["Vocabulary"]
