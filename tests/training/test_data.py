"""What is drawn for training can be understood from the request and the tools alone."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import replace
from pathlib import Path
from random import Random

import pytest

from callmemaybe.tuning.rendering import to_json
from callmemaybe.wire.enum_glosses import listed_values
from training import recipe as recipes
from training.data.generators import association_tasks, slots, synthetic
from training.data.generators.boolean_parameters import draw_features, phrase_state, slot
from training.data.mixture import GREETINGS, Block, BlockMaker, Mix, OfferedTool, Sources
from training.data.openings import NO_VERB, SYNONYMS, reword
from training.data.requests import draw_request, expand, with_article
from training.data.scenes import draw_scene, read_scenes
from training.data.scenes import read_file as read_scene_file
from training.data.similarity import FunctionSimilarity, describe_function
from training.data.statistics import count_drawn, count_written, table
from training.data.tasks import TaskFunction, TaskParameter, check, read_file, read_tasks
from training.data.variants import BlockStyle, draw_variant

FULL = BlockStyle("snake", 1.0, 1.0)


def one(kind: str, generator: str, *requests: str, **more: object) -> TaskFunction:
    """A function of one parameter `x`."""
    parameter = TaskParameter(("x",), kind, generator, ("A thing",), False, **more)  # type: ignore[arg-type]
    return TaskFunction("test", ("do",), ("Do it.",), [parameter], list(requests))


@pytest.mark.parametrize("draw", synthetic.NATURAL)
def test_made_up_families_are_sound(draw: object) -> None:
    """Whatever is drawn, a request holds every required argument and says every optional one it fills."""
    for number in range(300):
        rng = Random(f"family:{number}")
        function = draw(rng)  # type: ignore[operator]
        check(function)
        variant = draw_variant(function, rng, BlockStyle.draw(rng))
        prompt, arguments = draw_request(function, variant, rng)
        assert prompt.strip() == prompt.lstrip()
        assert set(variant.tool["parameters"]["required"]) <= set(arguments)
        assert not any(f"{{{parameter.key}" in prompt for parameter in function.parameters)
        assert "  " not in prompt.strip()


def test_a_code_comes_with_a_legend() -> None:
    """An enum value that does not resemble what people say is explained in the schema."""
    function = one("enum", "red=scarlet,green=emerald,blue=azure", "paint it {x}")
    coded = 0
    for number in range(400):
        rng = Random(number)
        variant = draw_variant(function, rng, BlockStyle("snake", 1.0, 0.0))
        schema = variant.tool["parameters"]["properties"]["x"]
        for value, shown in variant.enums["x"].items():
            if not isinstance(shown, str) or len(shown) == 1:
                coded += 1
                assert str(shown) in schema["description"]
                assert value in schema["description"]
    assert coded


def test_choices_may_be_listed_in_words() -> None:
    """A choice may be shown as a string whose description lists all values, in words that a form reads."""
    listed = found = 0
    for function in read_tasks()[::10]:
        style = replace(FULL, listed=1.0)
        variant = draw_variant(function, Random(function.key), style)
        for parameter in function.parameters:
            schema = variant.tool["parameters"]["properties"].get(variant.names[parameter.key], {})
            if parameter.type != "enum" or "enum" in schema or schema.get("type") != "string":
                continue
            listed += 1
            shown = list(variant.enums[parameter.key].values())
            assert all(value in schema["description"] for value in shown)
            found += listed_values(schema["description"]) == shown
    assert listed > 50
    assert found > 0.9 * listed


def test_dates_are_rewritten_only_where_the_schema_says_so() -> None:
    """Without a hint at a format a date is passed as it was said; with one it is ISO."""
    function = one("string", "isodate", "on {x}")
    seen = Counter[bool]()
    for number in range(300):
        rng = Random(number)
        variant = draw_variant(function, rng, BlockStyle("snake", 1.0, 0.0))
        prompt, arguments = draw_request(function, variant, rng, plain=0.0)
        hinted = "YYYY" in variant.tool["parameters"]["properties"]["x"].get("description", "")
        value = arguments["x"]
        iso = re.fullmatch(r"\d{4}-\d\d-\d\d", value) is not None
        assert iso if hinted else value in prompt
        seen[hinted] += 1
    assert seen[True] > 20
    assert seen[False] > 20


@pytest.mark.parametrize(("wording", "value"), [("with it", True), ("/without it", False)])
def test_a_switch_can_be_fixed(wording: str, value: bool) -> None:
    """`{x:words}` is always true, `{x:/words}` always false, and the words are said."""
    function = one("boolean", "", f"run {{x:{wording}}}")
    said = 0
    for number in range(40):
        rng = Random(number)
        variant = draw_variant(function, rng, FULL)
        prompt, arguments = draw_request(function, variant, rng, plain=0.0)
        assert list(arguments.values()) == [value]
        said += wording.strip("/") in prompt.lower()
    assert said >= 34  # the others have a typo


def test_parallel_lists_have_one_length() -> None:
    """A list declared `as` another one is as long as it, whichever is said first."""
    first = TaskParameter(("a",), "[integer]", "list int(0,9) 1 6", ("First",), False)
    second = TaskParameter(("b",), "[integer]", "list int(0,9) 1 6", ("Second",), False, "a")
    function = TaskFunction(
        "test", ("do",), ("Do it.",), [first, second], ["{a} and {b}", "{b}, {a}"]
    )
    check(function)
    lengths = set()
    for number in range(60):
        rng = Random(number)
        _, arguments = draw_request(function, draw_variant(function, rng, FULL), rng)
        a, b = (len(value) for value in arguments.values())
        assert a == b
        lengths.add(a)
    assert len(lengths) > 2


def test_lists_hold_no_two_functions_for_the_same_thing() -> None:
    """Functions of two domains that mean the same are not offered together; opposites are."""
    sources = Sources(read_tasks(), None)
    maker = BlockMaker(sources, Mix({"tasks": 1.0}))
    assert sources.similarity.are_similar("issues/file_issue", "git/open_issue")
    assert not sources.similarity.are_similar("shopping/add_to_cart", "shopping/remove_from_cart")
    for number in range(60):
        _, offers = maker.start(Random(f"kin:{number}"))
        keys = [offer.key for offer in offers]
        for place, key in enumerate(keys):
            assert not any(sources.similarity.are_similar(key, other) for other in keys[:place])


def test_a_refusal_is_really_one() -> None:
    """A request that calls nothing is neither for an offered function nor for its twin elsewhere."""
    functions = read_tasks()
    twins = ("issues/file_issue", "git/open_issue")
    for function in functions:
        if function.key in twins:
            function.requests = [f"quokka {request}" for request in function.requests]
    sources = Sources([f for f in functions if f.domain in ("issues", "git")], None, augment=False)
    sources.similarity = Sources(functions, None).similarity
    maker = BlockMaker(sources, Mix({"tasks": 1.0}, none=1.0))
    refused = 0
    for number in range(200):
        block, offers = maker.start(Random(f"refusal:{number}"), 3)
        pair = maker.pair(block, offers, Random(number))
        assert pair.calls == []
        if any(offer.key in twins for offer in offers):
            refused += 1
            assert "quokka" not in pair.prompt.lower()
    assert refused > 20


def test_similarity_has_two_sides() -> None:
    """If one function would answer another's requests, the other would answer its."""
    functions = read_tasks()[:400]
    similarity = FunctionSimilarity({f.key: describe_function(f) for f in functions})
    assert any(similarity.similar.values())
    for key, others in similarity.similar.items():
        assert all(key in similarity.similar[other] for other in others)


@pytest.mark.parametrize(
    ("before", "surface", "said"),
    [
        ("find a ", "electrician", "find an "),
        ("find an ", "plumber", "find a "),
        ("an ", "MRI", "an "),
        ("a ", "AAAA record", "an "),
        ("a ", "university", "a "),
        ("set it to ", "easy", "set it to "),
        ("a ", "'easy'", "a "),
    ],
)
def test_articles_suit_what_follows(before: str, surface: str, said: str) -> None:
    """`a` becomes `an` before a vowel that is heard, and back."""
    assert with_article(before, surface) == said


@pytest.mark.parametrize(
    ("text", "line", "word"),
    [
        ("# f\n: About.\n- x string list x 2 5;x\n> do {x}\n", 3, "list"),
        ("# f\n: About.\n- x string a;b;\n> do {x}\n", 3, "empty"),
        ("# f\n: About.\n- x enum only\n> do {x}\n", 3, "two values"),
        ("# f\n: About.\n- x string word\n> do it\n", 1, "do it"),
        ("foo bar\n", 1, "begins"),
        ("> do it\n", 1, ""),
    ],
)
def test_a_mistake_is_told_with_its_line(tmp_path: Path, text: str, line: int, word: str) -> None:
    """A task file that is wrong says where and what."""
    file = tmp_path / "wrong.txt"
    file.write_text(text, "utf-8")
    with pytest.raises(ValueError, match=f"wrong.txt:{line}: ") as caught:
        read_file(file)
    assert word in str(caught.value)


def test_optional_switches_are_said_often() -> None:
    """Parts that hold a switch or a choice are kept more often than others."""
    template = "go [{x:fast/slow}] [{y}]"
    said = [expand(template, Random(number), r"\{x\b") for number in range(400)]
    assert sum("{x" in text for text in said) > sum("{y" in text for text in said) + 40


def test_numbers_with_runs_of_digits_are_drawn() -> None:
    """Runs of equal digits, which are easily miscounted, occur in the data."""
    drawn = [slots.make(Random(number), "wide").surface for number in range(300)]
    assert sum(bool(re.search(r"(\d)\1{3}", text)) for text in drawn) > 10


def test_a_census_counts_everything_once() -> None:
    """Requests drawn are those counted, and what is written is what was read."""
    functions = read_tasks()
    written = count_written(functions)
    assert written["functions"] == len(functions) >= 800
    assert written["domains"] >= 60
    assert sum(written["parameters by type"].values()) == written["parameters"]
    maker = BlockMaker(Sources(functions, None), Mix({"tasks": 0.5, "synthetic": 0.5}))
    drawn = count_drawn(maker, 20, "census")
    assert sum(drawn["requests"].values()) == 20 * 12
    assert sum(drawn["tool lists"].values()) == sum(drawn["functions in a list"].values()) == 20
    assert table(drawn).count("\n") == len(drawn) + 1


def test_what_is_held_out_has_no_twin_in_training() -> None:
    """No training function of another domain does what a held-out one does."""
    recipe = recipes.load(recipes.ROOT / "training/runs/nano-2.toml")
    functions = read_tasks()
    why = {function.key: recipe.is_held_out(function) for function in functions}
    made_up = [scene.whole() for scene in read_scenes()]
    assert not {scene.domain for scene in made_up} & {function.domain for function in functions}
    functions += made_up
    why |= {scene.key: "" for scene in made_up}
    # From here on all pairs that were found did the same; of those from 0.47 on some did, which were read and left out
    # one by one (0.63 is one that lists the tasks of a project beside one that ends a reminder).
    similarity = FunctionSimilarity({f.key: describe_function(f) for f in functions}, 0.65)
    twins = {
        (key, other)
        for key, part in why.items()
        if part not in ("", "aside")
        for other in similarity.similar[key]
        if not why[other]
    }
    assert not twins


def test_no_training_function_bears_the_name_of_a_held_out_one() -> None:
    """What is called the same does the same, nearly always: four of eleven twins were found by that alone."""
    recipe = recipes.load(recipes.ROOT / "training/runs/nano-2.toml")
    known = {scene.key: scene.whole() for scene in read_scenes()}
    held: dict[str, str] = {}
    for function in read_tasks():
        part = recipe.is_held_out(function)
        if not part:
            known[function.key] = function
        elif part != "aside":
            held |= dict.fromkeys(function.names, function.key)
    shared = {
        (name, key, held[name])
        for key, function in known.items()
        for name in function.names
        if name in held
    }
    assert not shared


def test_a_scene_says_each_value_beside_its_own_words() -> None:
    """In every request of a scene each value stands where only its own parameter is asked for."""
    for scene in read_scenes():
        orders = set()
        for number in range(6):
            function = draw_scene(Random(f"{scene.key}:{number}"), (scene,))
            keys = {parameter.key for parameter in function.parameters}
            for request in function.requests:
                said = re.findall(r"\{(\w+)", request)
                assert set(said) <= keys
                assert len(said) == len(set(said)), request
                orders.add(tuple(said))
        assert len(orders) > 3, scene.key


@pytest.mark.parametrize(
    ("text", "word"),
    [
        ("== d\n# f | f\n: A.\n= do it\n- x string word : X\n", "x: a value is said"),
        ("== d\n# f | f\n: A.\n= do it\n- x string word = by {}\n", "two roles"),
        ("== d\n# f\n: A.\n= do\n- x string word = {}\n- y string word = {}\n", "a noun"),
        ("== d\nfoo bar\n", "a line begins"),
    ],
)
def test_a_mistake_in_a_scene_is_told(tmp_path: Path, text: str, word: str) -> None:
    """A scene file that is wrong says where and what."""
    file = tmp_path / "wrong.txt"
    file.write_text(text, "utf-8")
    with pytest.raises(ValueError, match=r"wrong.txt:\d+: ") as caught:
        read_scene_file(file)
    assert word in str(caught.value)


def test_two_lists_and_two_units_differ_to_the_eye() -> None:
    """Of two lists none is joined by "and"; two choices among the same values are two values."""
    lists = [
        TaskParameter((key,), "[integer]", "list int(0,99) 2 4", (key,), False)
        for key in ("a", "b")
    ]
    units = [TaskParameter((key,), "enum", "km,mi,ft,m", (key,), False) for key in ("c", "d")]
    function = TaskFunction(
        "t", ("do",), ("Do.",), [*lists, *units], ["{a} and {b} from {c} to {d}"]
    )
    same = 0
    for number in range(200):
        rng = Random(number)
        prompt, arguments = draw_request(function, draw_variant(function, rng, FULL), rng, plain=0)
        values = list(arguments.values())
        same += len(values) == 4 and values[-1] == values[-2]
        assert prompt.lower().count(" and ") <= 2  # the template's and one of thanks or greetings
    assert same < 6


def test_made_up_functions_stand_beside_nothing_alike(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where a made-up function is offered, no other function and no refused request has its topic."""
    monkeypatch.setattr("training.data.mixture.talk_about", lambda *_: "hello")
    sources = Sources(read_tasks(), None)
    maker = BlockMaker(sources, Mix({"tasks": 1.0}, none=1.0))
    made_up = 0
    for number in range(80):
        block, offers = maker.start(Random(f"topic:{number}"))
        prompt = maker.pair(block, offers, Random(number)).prompt
        for offer in (offer for offer in offers if offer.topic):
            made_up += 1
            assert not FunctionSimilarity.touches(offer.topic, prompt)
            for other in offers:
                assert other is offer or not FunctionSimilarity.touches(
                    offer.topic, other.described()
                )
    assert made_up > 20


def test_opposites_and_negations_mean_what_they_say() -> None:
    """A thing said to be "unread" or "not read" has `read` false, one said to be "read" has it true."""
    state = ("read", ["read"], ["unread"])
    said = Counter[bool]()
    for number in range(300):
        request = phrase_state(state, "the letter", Random(f"state:{number}"))
        value = "{read:/" not in request
        words = re.sub(r"\{read:/?|\}", "", request)
        negated = (
            re.search(r"\b(not|isn't|don't|can't|no longer)\b", words, re.IGNORECASE) is not None
        )
        assert value is (negated == ("unread" in words)), request
        said[negated] += 1
    assert min(said.values()) > 30


def test_what_is_with_or_without_is_said_so() -> None:
    """A switch for a feature is true where it is wanted, one against it where it is not."""
    for words, value in (("with pets", True), ("without pets", False)):
        for against in (False, True):
            said = slot("pets", against, words, value)
            assert said == f"{{pets:{'' if value != against else '/'}{words}}}"
    wanted = r"\{\w+:(/?)(?:with|plus|including|I need|definitely(?! no)) "
    for number in range(300):
        function = draw_features(Random(f"feature:{number}"))
        against = {p.key for p in function.parameters if p.abouts[0].startswith("Without")}
        for request in function.requests:
            for match in re.finditer(wanted, request):
                key = match[0][1:].partition(":")[0]
                assert (match[1] == "/") is (key in against), request


def test_another_verb_says_the_same() -> None:
    """An imperative is reworded as a whole, only where the verb stands before its object, and slots stay."""
    assert NO_VERB.isdisjoint(SYNONYMS)
    for template in (
        "turn off {x} [now]",
        "delete the file {x}",
        "Delete {x}",
        "check in {x}",
        "{x}",
    ):
        for number in range(6):
            said = reword(template, Random(number))
            begun = [v for v in SYNONYMS if template.startswith(f"{v} ")]
            if template in ("Delete {x}", "check in {x}", "{x}"):
                assert said == template
            else:
                verb = max(begun, key=len)
                rest = template.removeprefix(verb)
                assert said.endswith(rest)
                assert said.removesuffix(rest) in SYNONYMS[verb]


def test_what_is_measured_is_not_reworded() -> None:
    """Held-out requests keep the words they were written with; those for training do not always."""
    function = one("string", "slug", "delete {x}")
    for augment in (False, True):
        sources = Sources([function], None, augment=augment)
        rng = Random("words")
        said = [
            offer.draw(rng)[0].lower()
            for offer in (sources.offer("tasks", rng, FULL, None) for _ in range(200))
            if offer.key == function.key
        ]
        assert any(re.search("delete", text) for text in said)
        assert any(re.search("erase|wipe|remove", text) for text in said) is augment


def test_requests_that_share_no_word_with_their_function_are_drawn_more_often() -> None:
    """Of a function with direct and indirect requests, training draws the indirect ones more, evaluation evenly."""
    function = one("string", "slug", "launch {x}", "launch it: {x}", "get {x} going", "let {x} fly")
    function = replace(function, names=("launch",), abouts=("Launch a thing.",))
    shares = []
    for augment in (False, True):
        sources = Sources([function], None, augment=augment)
        assert sources.indirect == {id(function): function.requests[2:]}
        variant = draw_variant(function, Random(0), FULL)
        drawn = [sources.ask(function, variant, Random(n))[0].lower() for n in range(400)]
        shares.append(sum("launch" not in text for text in drawn) / len(drawn))
    assert shares[1] > shares[0] + 0.1


def test_a_made_up_function_is_asked_for_by_its_own_requests() -> None:
    """It may have the key of a written one, and other parameters."""
    written = one("string", "slug", "get {x} going")
    written = replace(written, names=("launch",), abouts=("Launch a thing.",))
    made = replace(written, parameters=[], requests=["fly"])
    assert made.key == written.key
    sources = Sources([written], None)
    variant = draw_variant(made, Random(0), FULL)
    for number in range(60):
        assert "going" not in sources.ask(made, variant, Random(number))[0].lower()


def test_dates_of_one_function_are_written_alike() -> None:
    """If a schema says how one of its dates is written, it says so of all; else all are passed as said."""
    parameters = [
        TaskParameter((key,), "string", "isodate", (about,), False)
        for key, about in (("a", "First day"), ("b", "Last day"), ("c", "Day (YYYY-MM-DD)"))
    ]
    seen = Counter[bool]()
    for chosen in (parameters, parameters[:2]):
        function = TaskFunction("t", ("do",), ("Do.",), chosen, ["{a} {b}"])
        for number in range(100):
            described = BlockStyle("snake", 1.0, number % 3 / 2)
            variant = draw_variant(function, Random(number), described)
            if variant.groups:
                continue  # told inside another object
            properties = variant.tool["parameters"]["properties"].values()
            told = ["yyyy" in p.get("description", "").lower() for p in properties]
            assert len(set(told)) == 1
            assert len(variant.as_worded) == (0 if told[0] else len(chosen))
            seen[told[0]] += 1
    assert min(seen.values()) > 20


def test_the_second_thing_is_asked_without_a_greeting() -> None:
    """A request for two calls greets at its beginning or not at all."""
    sources = Sources(
        [f for f in read_tasks() if f.domain in ("files", "maps")], None, augment=False
    )
    maker = BlockMaker(sources, Mix({"tasks": 1.0}, none=0.0, two=1.0))
    pairs = 0
    for number in range(40):
        rng = Random(f"two:{number}")
        block, offers = maker.start(rng, 3)
        pair = maker.pair(block, offers, rng)
        pairs += pair.tag == "two"
        if pair.tag == "two":
            said = pair.prompt.lower()
            assert not any(
                f"{word} {hello}" in said for word in ("and", "then") for hello in GREETINGS
            )
    assert pairs > 20


def test_names_in_a_list_are_divided() -> None:
    """Only what cannot be taken for one name is listed with nothing but blanks between."""
    bare = {"first": 0, "small": 0}
    for generator in bare:
        for number in range(200):
            slot = slots.make(Random(number), f"list {generator} 2 4")
            bare[generator] += not re.search(r"[,\[]| and ", slot.surface)
    assert bare["first"] == 0
    assert bare["small"] > 5


def test_nobody_is_named_twice_in_a_list() -> None:
    """A list of days holds each day once, as long as there are enough."""
    for number in range(300):
        days = slots.make(Random(number), "list weekday 3 5").value
        assert len(days) == len(set(days))


def test_an_association_task_never_names_its_word() -> None:
    """A request for the function names associations of the word, never the word itself."""
    told = dict(association_tasks.lines())
    for number in range(200):
        function = association_tasks.draw_association_task(Random(number))
        for request in function.requests:
            said = set(re.findall("[a-z]+", re.sub(r"\{\w+\}", "", request).lower()))
            assert function.domain not in said
            assert len(said & set(told[function.domain])) >= 2


def test_an_enum_of_associations_has_one_answer() -> None:
    """What is said for one value comes to mind with no other value of the list, nor is it one."""
    told = dict(association_tasks.lines())
    drawn = [
        association_tasks.draw_association_enum(Random(number), set()) for number in range(200)
    ]
    assert sum(each is None for each in drawn) < 60
    for parameter in filter(None, drawn):
        for value, ways in parameter.choices.items():
            others = {
                word
                for other in parameter.choices
                if other != value
                for word in (other, *told[other])
            }
            assert len(ways) >= 2
            assert others.isdisjoint(ways)
            assert value not in ways
    assert (
        association_tasks.draw_association_enum(Random(0), set(association_tasks.CHOICE_NAMES))
        is None
    )


def test_a_tool_described_at_length_keeps_what_it_said() -> None:
    """Documentation is put behind a legend or a form that tells how to write a value, never in their place."""
    function = one("enum", "red=scarlet,green=emerald", "paint it {x}")
    function = replace(function, parameters=[replace(function.parameters[0], legend_only=True)])
    lengths = []
    for number in range(100):
        short, long = (
            draw_variant(function, Random(number), replace(FULL, wordy=wordy)).tool
            for wordy in (False, True)
        )
        before, after = (
            tool["parameters"]["properties"]["x"]["description"] for tool in (short, long)
        )
        assert after.startswith(before.rstrip("."))
        assert function.abouts[0] in long["description"]
        assert (
            short["parameters"]["properties"]["x"]["enum"]
            == long["parameters"]["properties"]["x"]["enum"]
        )
        lengths.append(len(long["description"]) / len(short["description"]))
    assert sum(lengths) / len(lengths) > 2


def test_only_training_reads_tools_described_at_length() -> None:
    """What is measured is described as it was written, so that figures can be compared."""
    function = one("string", "slug", "launch {x}")
    shares = []
    for augment in (False, True):
        maker = BlockMaker(
            Sources([function], None, augment=augment), Mix({"tasks": 1.0}, sizes=(1,))
        )
        drawn = [
            maker.start(Random(number), 1)[0].tools[0].get("description", "")
            for number in range(200)
        ]
        shares.append(sum(len(text) > 40 for text in drawn) / len(drawn))
    assert shares[0] == 0
    assert 0.1 < shares[1] < 0.5


def test_a_near_miss_is_drawn_where_no_other_function_may_serve_it() -> None:
    """What only sounds like a function is a refusal, but not beside one of its domain, which may do just that."""
    function = replace(one("string", "slug", "launch {x}"), near=["did the launch go well?"])
    stranger = replace(one("string", "slug", "weigh {x}"), domain="other", names=("weigh",))
    sibling = replace(stranger, domain="test", names=("launch_report",))
    for others, expected in (([stranger], True), ([sibling], False), ([], True)):
        sources = Sources([function, *others], None)
        maker = BlockMaker(sources, Mix({"tasks": 1.0}))
        offers = []
        for each in (function, *others):
            variant = draw_variant(each, Random(1), FULL)
            offers.append(OfferedTool(each.key, variant.tool, lambda _: ("", {}), "", each.near))
        drawn = {maker.near_miss(offers, Random(number)) for number in range(50)}
        assert any("launch" in text.lower() for text in drawn) == expected


@pytest.mark.parametrize("near", ["launch {x}", "launch [it]", "launch it: {x}"])
def test_a_near_miss_has_no_slot(near: str) -> None:
    """Nothing is passed to a function that is not called."""
    with pytest.raises(ValueError, match="is a request, or has a slot"):
        check(replace(one("string", "slug", "launch it: {x}"), near=[near]))


@pytest.mark.parametrize("told", [True, False])
def test_a_group_hides_nothing_that_only_a_description_says(told: bool) -> None:
    """Of a field in a group the network reads name and type: neither what a code means, nor which values there are,
    nor how a date is written. What is measured is grouped as it was."""
    parameters = [
        TaskParameter(
            ("kind",), "enum", "csv=commas,parquet=columns,excel=sheets", ("Format",), False
        ),
        TaskParameter(("begin",), "string", "isodate", ("First",), False),
        TaskParameter(("pause",), "integer", "mins", ("Rest",), False),
        TaskParameter(("pause_minutes",), "integer", "mins", ("Rest",), False),
        TaskParameter(("copies",), "integer", "int(1,9)", ("How many",), False),
    ]
    request = "{kind} {begin} {pause} {pause_minutes} {copies}"
    function = TaskFunction("test", ("do",), ("Do it.",), parameters, [request])
    hidden = groups = 0
    for number in range(3000):
        style = replace(FULL, listed=0.3, keeps_legends=told)
        variant = draw_variant(function, Random(f"group:{number}"), style)
        groups += bool(variant.groups)
        for key, group in variant.groups.items():
            inner = variant.tool["parameters"]["properties"][group]["properties"][
                variant.names[key]
            ]
            values = inner.get("enum", ["csv"] * (key != "kind"))
            is_code = any(not isinstance(value, str) or len(value) == 1 for value in values)
            is_form = key in ("begin", "pause") and key not in variant.as_worded
            hidden += is_code or not values or is_form
    assert groups > 10
    assert (hidden == 0) is told


def test_two_requests_keep_what_they_say() -> None:
    """Between two requests neither a mark that belongs to a text is lost nor a name made small, and none is asked twice."""

    def offer(name: str, prompt: str, arguments: dict[str, object]) -> OfferedTool:
        return OfferedTool(f"test/{name}", {"name": name}, lambda _: (prompt, dict(arguments)))

    offers = [
        offer("reply", "write back: See you!", {"text": "See you!"}),
        offer("book", "Emma, nails, Friday", {"who": "Emma"}),
        offer("invite", "Ana and Tom come along?", {"data": {"names": ["Ana", "Tom"]}}),
        offer("list", "List all.", {}),
    ]
    maker = BlockMaker(Sources([], None, augment=False), Mix({"tasks": 1.0}, none=0.0, two=1.0))
    block = Block([each.tool for each in offers], "tasks")
    seen = Counter[str]()
    for number in range(400):
        pair = maker.pair(block, offers, Random(f"both:{number}"))
        for _, arguments in pair.calls:
            said = re.findall(r'"([^"]+)"', re.sub(r'"\w+":', "", to_json(arguments)))
            assert all(text in pair.prompt for text in said), pair
        assert len(pair.calls) == 1 or pair.calls[0] != pair.calls[1]
        seen[pair.tag] += 1
        seen["small"] += ", then list all." in pair.prompt
        seen["unmarked"] += "come along;" in pair.prompt
    assert all(seen[tag] for tag in ("one", "two", "small", "unmarked"))


def test_what_is_swapped_is_said_as_people_say_it() -> None:
    """Who swaps, exchanges or replaces one thing for another has the other then; who substitutes it, the first."""
    seen = Counter[str]()
    for number in range(3000):
        function = synthetic.draw_pair_function(Random(number))
        verb = function.names[0].partition("_")[0]
        if {p.key for p in function.parameters} >= {"old", "new"}:
            said = " ".join(function.requests)
            seen[verb] += "{old} for {new}" in said
            seen[f"{verb}, turned"] += "{new} for {old}" in said
    assert all(seen[verb] for verb in ("swap", "exchange", "replace", "substitute, turned"))
    assert not seen["substitute"] + sum(
        seen[f"{v}, turned"] for v in ("swap", "exchange", "replace")
    )
