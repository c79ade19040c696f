"""The engine without a model: which bytes may come next in a language given by a pattern."""

from callmemaybe.grammar import compile as compile_grammar
from callmemaybe.grammar import regex
from callmemaybe.matching import Matcher
from callmemaybe.testing.vocabularies import ByteVocabulary


def main() -> None:
    """Walk through an ISO date and show at each step what is allowed."""
    vocabulary = ByteVocabulary()
    matcher = Matcher(compile_grammar(regex(r"20[0-9]{2}-(0[1-9]|1[0-2])")), vocabulary)
    for byte in b"2026-11":
        allowed = b"".join(vocabulary.token(index) for index in matcher.allowed())
        forced = b"".join(vocabulary.token(index) for index in matcher.forced())
        print(f"{chr(byte)}   allowed {allowed.decode():12} forced {forced.decode()!r}")
        matcher.accept(byte)
    print("complete:", matcher.is_accepting)


if __name__ == "__main__":
    main()
