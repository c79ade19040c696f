"""Requests in other languages mean what they say, to functions that are shown in English."""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest

torch = pytest.importorskip("torch", reason="training needs PyTorch (make train installs it)")
pytest.importorskip("scipy", reason="training needs scipy")

from callmemaybe.tuning import token_forms  # noqa: E402
from callmemaybe.tuning.network import whole_words  # noqa: E402
from callmemaybe.tuning.rendering import (  # noqa: E402
    NOW,
    SAID,
    SaidValues,
    ToolSpec,
    holds,
)
from training import recipe as recipes  # noqa: E402
from training.data import foreign, foreign_words  # noqa: E402
from training.data import tokenizer as tokenizers  # noqa: E402
from training.data.generators import language_slots  # noqa: E402
from training.data.mixture import BlockMaker, BlockStyle  # noqa: E402

RECIPE = recipes.load(recipes.DEFAULT)
TOKENIZER = tokenizers.load(recipes.RELEASE / "tokenizer.json")


@pytest.fixture(scope="module")
def maker() -> BlockMaker:
    return RECIPE.maker("train", {"foreign": 1.0})


@pytest.mark.timeout(900)
def test_every_function_of_a_language_can_be_asked_for(maker: BlockMaker) -> None:
    """A request of every function is drawn whose dates, times and numbers the values room reads as they are meant."""
    rng = Random(0)
    for language, tasks in maker.sources.foreign.items():
        for pair in tasks.functions:
            offer = maker.sources.offer_foreign(language, pair, rng, BlockStyle.draw(rng))
            assert offer, (language, pair[0].key)
            prompt, arguments = offer.draw(rng)
            tool = ToolSpec(offer.tool["name"], parameters=offer.tool["parameters"])
            changed, _ = SaidValues.of(prompt, NOW).narrow(tool)
            for name, schema in changed.parameters["properties"].items():
                if name in arguments and isinstance(schema, dict) and SAID in schema:
                    assert holds(schema, arguments[name]), (prompt, arguments)


def test_what_is_held_out_is_asked_for_in_measuring_alone(maker: BlockMaker) -> None:
    """No function is in both parts; the measure has more than 100 French requests, and German and Spanish ones."""
    trained = {f.key for t in maker.sources.foreign.values() for f, _ in t.functions}
    held = RECIPE.maker("foreign").sources.foreign
    assert trained.isdisjoint(f.key for t in held.values() for f, _ in t.functions)
    written = {name: sum(len(a.requests) for _, a in t.functions) for name, t in held.items()}
    assert written["fr"] > 100
    assert min(written["de"], written["es"]) >= 40
    assert len(maker.sources.foreign["fr"].functions) >= 300
    assert min(len(maker.sources.foreign[name].functions) for name in ("de", "es")) >= 100


def test_a_mistake_is_told_with_its_place(tmp_path: Path) -> None:
    """File and line of an unknown parameter, a line without a mark, and an enum whose values have no words."""
    known = {function.key: function for function in RECIPE.functions("train")}
    (tmp_path / "fr").mkdir()
    file = tmp_path / "fr" / "x.txt"
    for lines, said in (
        ("# home/open_garage\n- nix mot\n> ouvre\n", "x.txt:2: home/open_garage has no parameter"),
        ("# home/open_garage\nouvre le garage\n", "x.txt:2: a line begins with"),
        ("# home/open_garage\n> {action} le garage\n", "action: no words for its values"),
    ):
        file.write_text(lines, "utf-8")
        with pytest.raises(ValueError, match=said):
            foreign.read_language(tmp_path / "fr", known)


@pytest.mark.parametrize(
    ("language", "value", "said"),
    [
        ("fr", 21, "vingt et un"),
        ("fr", 71, "soixante et onze"),
        ("fr", 80, "quatre-vingts"),
        ("fr", 99, "quatre-vingt-dix-neuf"),
        ("fr", 2000, "deux mille"),
        ("fr", 300, "trois cents"),
        ("de", 21, "einundzwanzig"),
        ("de", 1000, "tausend"),
        ("de", 400, "vierhundert"),
        ("es", 32, "treinta y dos"),
        ("es", 3000, "tres mil"),
    ],
)
def test_numbers_are_spelt(language: str, value: int, said: str) -> None:
    """Numbers in words, as each language has them."""
    assert language_slots.in_words(language, value) == said


def test_words_of_other_languages_are_found_by_their_pieces() -> None:
    """A word cut at its accents is found as a whole, with a capital and behind an apostrophe, and nowhere else."""
    words = ("réserver", "éteins", "éclairage", "öffnen", "mañana", "schließen")
    pieces = whole_words.foreign_pieces(TOKENIZER, words)
    assert list(pieces) == list(words)
    bases, base, form, _ = token_forms.forms(TOKENIZER)
    rows = torch.arange(1.0, len(words) + 1)[:, None].numpy()
    table = whole_words.WholeWords(bases, [whole_words.key(each) for each in pieces.values()], rows)

    def found(text: str) -> list[str]:
        begin = TOKENIZER.token_to_id("<|user|>")
        ids = torch.tensor([begin, *TOKENIZER.encode(text, add_special_tokens=False).ids])
        at = torch.arange(len(ids))[:, None] - torch.arange(whole_words.MOST_PIECES)
        window = ids[at.clamp(min=0)]
        known, forms = torch.from_numpy(base)[window], torch.from_numpy(form)[window]
        numbers = table(whole_words.suffix_hashes(known), known, forms)[:, 0]
        return [words[int(n) - 1] for n in numbers if n]

    assert found("Réserver l'éclairage, mañana") == ["réserver", "éclairage", "mañana"]
    assert found("\u201céteins\u201d und Schließen, \u2019öffnen") == [
        "éteins",
        "schließen",
        "öffnen",
    ]
    assert found("préréserver éteinsons") == []


def test_forms_are_made_by_rule() -> None:
    """Imperatives, participles and plurals translate as their word does; what is written goes before."""
    words = foreign_words.read()
    assert words["réservez"] == words["réservé"] == words["réserver"] == ["book", "reserve"]
    assert words["rappelle"] == ["remind", "call"]
    assert words["schalte"] == words["schalten"]
    assert words["habitaciones"] == words["habitación"]
    assert words["lumieres"] == words["lumière"]


def test_a_part_of_the_words_has_some_of_every_language(tmp_path: Path) -> None:
    """Words come in turn, each with its forms, and mean what is written before what a rule makes."""
    for language, text in (
        ("fr", "[verbs]\nallumer=light tester=test\n[words]\nschalte=shawl\n"),
        ("de", "[verbs]\nschalten=switch\n[words]\nuhr=clock\n"),
        ("es", "[nouns]\nluz=light\n"),
    ):
        (tmp_path / f"{language}.txt").write_text(text, "utf-8")
    found = foreign_words.read(tmp_path)
    order = list(found)
    assert order.index("schalten") < order.index("luz") < order.index("tester")
    assert order.index("allumée") + 1 == order.index("allumee")
    assert found["schalte"] == ["shawl"]
    assert found["luces"] == ["light"]
