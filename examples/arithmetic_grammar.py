"""A grammar of arithmetic: random choices within it, and Python agrees that each one can be read."""

import random

from callmemaybe.grammar import compile as compile_grammar
from callmemaybe.grammar.ebnf import ebnf
from callmemaybe.matching import Matcher
from callmemaybe.testing.vocabularies import ByteVocabulary

GRAMMAR = r"""
start: sum
sum: product (("+" | "-") product)*
product: factor ("*" factor)*
factor: NUMBER | "(" sum ")" | "-" factor
NUMBER: /0|[1-9][0-9]{0,2}/
"""


def write(dice: random.Random, budget: int = 40) -> str:
    """Choose one allowed byte after the other; the budget leads to an end in time."""
    vocabulary = ByteVocabulary()
    matcher = Matcher(compile_grammar(ebnf(GRAMMAR)), vocabulary)
    # Nothing is allowed any more only where the text is complete.
    while len(ids := matcher.allowed(budget - len(matcher.ids))):
        matcher.accept(int(dice.choice(list(ids))))
    return matcher.text.decode()


def main() -> None:
    """Write a few sums and their values."""
    dice = random.Random(4)  # noqa: S311 - an example
    for _ in range(8):
        text = write(dice)
        print(f"{text} = {eval(text, {})}")  # noqa: S307 - digits, + - * and brackets only


if __name__ == "__main__":
    main()
