"""Which tokens may come next: an automaton over bytes, matched with a vocabulary of tokens.

The problem: an automaton says which *bytes* may follow, a model chooses among 100,000 *tokens* of many
bytes each. A token is allowed if the automaton survives all of its bytes. Trying every token in every
state would take milliseconds a step. Four facts make it microseconds:

- Tokens share prefixes, so they are stored as a trie, which is walked together with the automaton:
  a byte that the automaton refuses rules out all tokens below it at once (`mask_walk.py`; whole levels
  of the trie with numpy in `mask_bulk.py`).
- Automaton states are interned integers, so a mask is computed once per (vocabulary, state) and then
  looked up (`cache.py`). Different states with the same set share one object (`token_set.py`).
- Inside a lexeme (a JSON string, a number) the set of tokens that stay inside does not depend on the
  grammar around it. The tokens that leave it are grouped by their remainder, the bytes after the
  lexeme's end; only these few remainders meet the grammar (`lexemes.py`, `mask_fastpath.py`).
- Where only one text may come, no model need be asked. It is given in canonical tokens, the ones the
  tokenizer itself would produce (`canonical.py`).

`Matcher` is the cursor over all this: small, forkable, reversible. `budget.py` counts the fewest tokens
to an end, so that an output can always be finished within a limit.

This is the one room that knows bytes and tokens. It knows no tool, no wire format and no model, and it
chooses nothing: the sampler does. Everything is pure: no clock, no randomness, no file, no thread.
"""

from callmemaybe.matching.matcher import Matcher
from callmemaybe.matching.token_set import TokenSet

__all__ = ["Matcher", "TokenSet"]
