"""Words of French, German and Spanish with the English words that they translate: `sources/foreign/words/<language>.txt`.

Written for this project, `word=translation/translation`, in sections by how a word is inflected. The forms that a
request uses (plurals, imperatives, participles) are made by rule; irregular ones stand in `[words]` as they are.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import chain, zip_longest
from pathlib import Path

FOLDER = Path(__file__).parent / "sources" / "foreign" / "words"
LANGUAGES = ("fr", "de", "es")
Rule = Callable[[str], list[str]]


def french_verb(word: str) -> list[str]:
    """Imperatives, the present, participles and the future of a verb."""
    stem, end = word[:-2], word[-2:]
    if end == "er":
        soft = stem + "e" if stem.endswith("g") else stem[:-1] + "ç" if stem.endswith("c") else stem
        mute = grave(stem)
        present = [mute + each for each in ("e", "es", "ent")]
        return [*present, stem + "ez", soft + "ons", stem + "é", stem + "ée", stem + "és", stem + "ées", mute + "era", mute + "erai", soft + "ant"]  # fmt: skip
    if end == "ir" and not word.endswith(
        ("oir", "nir", "frir", "vrir", "mir", "vir", "tir", "rir")
    ):
        return [
            stem + each
            for each in ("is", "it", "issez", "issons", "issent", "i", "ie", "ies", "ira", "irai")
        ]
    if end == "re" and word.endswith(("ndre", "rdre")) and not word.endswith(("indre", "prendre")):
        return [
            stem + each for each in ("s", "ez", "ons", "ent", "u", "ue", "us", "ues", "ra", "rai")
        ]
    return []


def grave(stem: str) -> str:
    """The stem of a French verb before a mute e: `achèt`, `rappell`, `répèt`, `essuy` as `essui`."""
    if stem.endswith(("appel", "jet")):
        return stem + stem[-1]
    if stem.endswith(("oy", "uy")):
        return stem[:-1] + "i"
    if (
        len(stem) > 2
        and stem[-2] in "eé"
        and stem[-1] in "tlvmnprscdg"
        and not stem.endswith(("és", "ess"))
    ):
        return f"{stem[:-2]}è{stem[-1]}"
    return stem


def french_noun(word: str) -> list[str]:
    """The plural."""
    if word.endswith(("s", "x", "z")):
        return []
    if word.endswith("al"):
        return [word[:-2] + "aux"]
    return [word + ("x" if word.endswith(("eau", "eu")) else "s")]


def french_adjective(word: str) -> list[str]:
    """Feminine and plural."""
    women = word + ("" if word.endswith("e") else "e")
    for end, other in (
        ("eux", "euse"),
        ("if", "ive"),
        ("er", "ère"),
        ("el", "elle"),
        ("en", "enne"),
        ("on", "onne"),
        ("eau", "elle"),
    ):
        if word.endswith(end):
            women = word.removesuffix(end) + other
            break
    return [women, women + "s", *french_noun(word)]


def german_verb(word: str) -> list[str]:
    """The present, imperatives and the participle of a regular verb."""
    stem = word.removesuffix("n").removesuffix("e")
    link = "e" if stem.endswith(("d", "t")) else ""
    prefix = (
        ""
        if stem.endswith("ier") or stem.startswith(("be", "er", "ver", "ent", "emp", "ge"))
        else "ge"
    )
    soft = (
        stem[:-2] + stem[-1] if stem.endswith(("el", "er")) and not word.endswith("ieren") else stem
    )
    return [soft + "e", f"{stem}{link}st", f"{stem}{link}t", f"{prefix}{stem}{link}t", stem]


def german_noun(word: str) -> list[str]:
    """What a plural mostly is."""
    if word.endswith("e"):
        return [word + "n"]
    if word.endswith(("ung", "heit", "keit", "schaft", "ion")):
        return [word + "en"]
    if word.endswith(("er", "en", "el")):
        return [word + "n", word + "s"]
    return [word + "e", word + "en", word + "s"]


def german_adjective(word: str) -> list[str]:
    return [word + each for each in ("e", "en", "er", "es", "em")]


def spanish_verb(word: str) -> list[str]:
    """The present, imperatives (also with a pronoun), participle and gerund of a regular verb."""
    stem, end = word[:-2], word[-2:]
    if end == "ar":
        hard = (
            stem[:-1] + "qu"
            if stem.endswith("c")
            else stem + "u"
            if stem.endswith("g")
            else stem[:-1] + "c"
            if stem.endswith("z")
            else stem
        )
        return [stem + "a", stem + "o", stem + "as", hard + "e", hard + "en", stem + "ad", stem + "ado", stem + "ada", stem + "ados", stem + "ando", word + "me", stem + "ame", word + "lo"]  # fmt: skip
    if end in ("er", "ir"):
        return [stem + each for each in ("e", "o", "es", "a", "an", "ido", "ida", "iendo")] + [
            word + "me",
            stem + "eme",
        ]
    return []


def spanish_noun(word: str) -> list[str]:
    """The plural."""
    if word.endswith("z"):
        return [word[:-1] + "ces"]
    if word.endswith("ión"):
        return [word[:-2] + "ones"]
    return [word + ("s" if word[-1] in "aeiouáéó" else "es")] if word[-1] != "s" else []


def spanish_adjective(word: str) -> list[str]:
    if word.endswith("o"):
        return [word[:-1] + each for each in ("a", "os", "as")]
    return spanish_noun(word)


RULES: dict[tuple[str, str], Rule] = {
    ("fr", "verbs"): french_verb, ("fr", "nouns"): french_noun, ("fr", "adjectives"): french_adjective,
    ("de", "verbs"): german_verb, ("de", "nouns"): german_noun, ("de", "adjectives"): german_adjective,
    ("es", "verbs"): spanish_verb, ("es", "nouns"): spanish_noun, ("es", "adjectives"): spanish_adjective,
}  # fmt: skip


def read_lines(file: Path) -> Iterator[tuple[str, str, list[str]]]:
    """Yield section, word and translations; raises ValueError with file and line for a mistake."""
    section = "words"
    for number, line in enumerate(file.read_text("utf-8").splitlines(), 1):
        if line.startswith("["):
            section = line.strip("[] ")
            continue
        for pair in line.split():
            word, _, translations = pair.partition("=")
            if not word or not translations:
                raise ValueError(f"{file.name}:{number}: {pair!r} is no word=translation")
            yield section, word, translations.split("/")


def read(folder: Path = FOLDER) -> dict[str, list[str]]:
    """Words of other languages in all their forms, with the English words that they translate.

    What is written goes before what is made by rule, and French before German before Spanish where two languages
    share a form. The order is that of use: each section of each language in turn, a word at a time with its forms, so
    that of a part of them every language and section has its share, and what its file says first.
    """
    written: dict[str, list[str]] = {}
    made: dict[str, list[str]] = {}
    sections: dict[tuple[str, str], list[list[str]]] = {}
    for language in LANGUAGES:
        for section, word, translations in read_lines(folder / f"{language}.txt"):
            rule = RULES.get((language, section))
            forms = [word, *(rule(word) if rule else ())]
            sections.setdefault((language, section), []).append(forms)
            written.setdefault(word, translations)
            for form in forms[1:]:
                made.setdefault(form, translations)
    every = made | written
    plain = {without: every[word] for word in every if (without := unaccented(word)) not in every}
    every |= plain
    ordered: dict[str, list[str]] = {}
    for entries in zip_longest(*sections.values(), fillvalue=[]):
        for form in chain.from_iterable(entries):
            ordered[form] = every[form]
            ordered[unaccented(form)] = every[unaccented(form)]
    return ordered


PLAIN = str.maketrans("àâäéèêëîïôöûùüçñáíóúœ", "aaaeeeeiioouuucnaioue")


def unaccented(word: str) -> str:
    """A word as people write it who have no accents at hand."""
    return word.translate(PLAIN)
