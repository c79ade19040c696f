"""Vocabularies: tokens as bytes, text to ids, and tokens by prefix.

A model reads and writes ids; a language is a set of byte strings. A :class:`Vocabulary` connects the
two: the bytes of each id, the ids that a tokenizer gives for a text (its canonical encoding), and a
prefix tree of all tokens, along which a matcher finds the allowed ones. Control tokens, such as the
end of a turn, have a name and no bytes: text that spells the name is ordinary text.

Tokenizer files take a second and hundreds of megabytes to parse, so everything derived from them is
flat arrays (:mod:`.trie`, :mod:`.bpe`) in a file that the next process maps (:mod:`.disk_cache`). Text
is split into words (:mod:`.pretokenizer`) and merged (:mod:`.bpe`) here, or by the library
``tokenizers`` where that cannot be done exactly (:mod:`.encoders`). Each file format has a module in
``readers``. :mod:`.bitmask` has sets of ids in the bit layout of xgrammar and llguidance.

This room knows no grammar, no automaton and no model.
"""

from callmemaybe.vocabulary.vocabulary import Vocabulary

__all__ = ["Vocabulary"]
