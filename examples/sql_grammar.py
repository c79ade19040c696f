"""A grammar of queries on one table: random choices within it, and SQLite runs every one."""

import random
import sqlite3

from callmemaybe.grammar import compile as compile_grammar
from callmemaybe.grammar.ebnf import ebnf
from callmemaybe.matching import Matcher
from callmemaybe.testing.vocabularies import ByteVocabulary

TABLE = "CREATE TABLE orders (id INTEGER, city TEXT, price REAL)"
GRAMMAR = r"""
start: "SELECT " columns " FROM orders" (" WHERE " condition)? (" ORDER BY " COLUMN " DESC"?)? LIMIT?
columns: "*" | "count(*)" | COLUMN (", " COLUMN)*
condition: test ((" AND " | " OR ") test)*
test: NUMERIC COMPARISON NUMBER | "city" (" = " | " LIKE ") TEXT | "NOT (" condition ")"
LIMIT: / LIMIT [1-9][0-9]?/
COLUMN: "id" | "city" | "price"
NUMERIC: "id" | "price"
COMPARISON: " = " | " < " | " >= "
NUMBER: /-?(0|[1-9][0-9]{0,3})/
TEXT: /'([a-zA-Z %]|''){0,8}'/
"""


def write(dice: random.Random, budget: int = 120) -> str:
    """Choose one allowed byte after the other; the budget leads to an end in time."""
    vocabulary = ByteVocabulary()
    matcher = Matcher(compile_grammar(ebnf(GRAMMAR)), vocabulary)
    # Nothing is allowed any more only where the text is complete.
    while len(ids := matcher.allowed(budget - len(matcher.ids))):
        matcher.accept(int(dice.choice(list(ids))))
    return matcher.text.decode()


def main() -> None:
    """Write a few queries and let SQLite run each."""
    dice = random.Random(4)  # noqa: S311 - an example
    with sqlite3.connect(":memory:") as database:
        database.execute(TABLE)
        for _ in range(8):
            query = write(dice)
            print(f"{len(database.execute(query).fetchall())} rows: {query}")


if __name__ == "__main__":
    main()
