"""Made-up functions of yes and no: opposites, negation, what comes with or without something.

A request rarely states a boolean by its name: a function has `read`, people say "unread", "not read
yet", "is no longer read". Which of several optional switches a request is about, and that the others stay
away, is learnt from the same requests.
"""

from __future__ import annotations

from random import Random

from training.data.generators.choices import OBJECTS, THINGS, third_person
from training.data.generators.tables import FEATURES, FLAG_PHRASES, STATES
from training.data.tasks import TaskFunction, TaskParameter

State = tuple[str, list[str], list[str]]  # name of the switch, wordings of true and of false

# `{t}` is the thing, `{a}` an adjective that is wanted, or one that is not.
SET_TO = """mark {t} as {a}|make {t} {a}|set {t} to {a}|~{t} should be {a}|~{t} is {a} now|~{t}: {a}|~{t} must be {a}
~{t} has to be {a} from now on|put {t} down as {a}|~from today {t} is {a}|declare {t} {a}|~I want {t} to be {a}
change {t} to {a}|~it turned out that {t} is {a}|~{a} is what {t} should be|flag {t} as {a}|~{t} -> {a}""".replace(
    "\n", "|"
).split("|")
SET_NOT = """~{t} should not be {a}|~{t} is not {a} any more|~{t} is no longer {a}|don't mark {t} as {a}|~{t} isn't {a}
~{t} must not be {a}|~{t} is not {a} after all|~I don't want {t} to be {a}|~{t} can't be {a}|~{t}: not {a}
~no longer {a}: {t}|~we said {t} was {a}, but it is not""".replace("\n", "|").split("|")
SAME_SIDE = (
    "with ",
    "on ",
    "in ",
    "at ",
    "by ",
    "under ",
    "free of",
    "open to",
    "up to",
    "taking",
    "still",
    "for ",
)
WITH = """with {n}|{b} included|including {n}|plus {n}|{n} too|I need {n}|{n} please|I want {n}|it must have {n}
don't forget {n}|and {n}|as long as I get {n}|definitely {n}|we can't do without {n}|and also {n}""".replace(
    "\n", "|"
).split("|")
WITHOUT = """without {n}|no {b}|{b} excluded|excluding {n}|{b} not needed|I don't need {n}|skip {n}|leave out {n}
minus {n}|we can do without {n}|but no {b}|definitely no {b}|there should be no {b}|spare me {n}|I don't want {n}""".replace(
    "\n", "|"
).split("|")
FIND = ("list", "show", "find", "search", "get", "fetch", "count", "export", "print")
ORDER = (
    "book",
    "order",
    "find",
    "request",
    "get",
    "prepare",
    "create",
    "set up",
    "reserve",
    "look for",
    "plan",
)
DO = (
    "send",
    "run",
    "start",
    "copy",
    "print",
    "share",
    "upload",
    "import",
    "export",
    "delete",
    "move",
    "load",
)
DO += ("open", "test", "play", "save")
# Words that do not reveal which of these is meant, like "only once" or "in the background" which one is meant.
APART = (
    {"wait", "background"},
    {"ordered", "shuffle"},
    {"own_room", "alone"},
    {"send_now", "pay_now"},
    {"public", "read_only"},
    {"public", "anonymized"},
    {"public", "encrypted"},
    {"retry", "loop"},
    {"silent", "notify_all"},
    {"iced", "pre_heat"},
    {"parallel", "rate_limited"},
    {"night_mode", "quiet_hours"},
    {"expire", "auto_renew"},
    {"keep_history", "record"},
    {"alone", "team_play"},
    {"alone", "split_bill"},
    {"indoor", "outdoor_seating"},
    {"pay_now", "in_advance"},
    {"first_time", "beginner"},
    {"compressed", "pretty"},
    {"substitutes", "generic"},
    {"translated", "bilingual"},
    {"weekends", "weekend_delivery"},
    {"retry", "competitive"},
    {"fasting", "with_food"},
)
EXTRA_FIELDS = """city,place,where|string|city|in {}|Where
person,owner,author,by,created_by|string|person|by {},from {}|Whose
since,after,from_date|string|day|since {},from {} on|From this day on
limit,max_results,count|integer|int(2,90)|at most {} of them,no more than {} results,only {} of them|How many at most
max_price,budget,up_to|number|int(10,4000)|costing at most {},not dearer than {}|Highest price""".splitlines()
ORDER_FIELDS = """city,place,where|string|city|in {},near {}|Where
name,customer,for_whom|string|person|for {},under the name {}|For whom
day,date,when|string|day|on {},for {}|When
quantity,number,how_many|integer|int(2,30)|{} of them,times {}|How many""".splitlines()


def plural(noun: str) -> str:
    """More than one of a thing."""
    if noun.startswith("article of"):
        return "articles of" + noun.removeprefix("article of")
    if noun.endswith("y") and noun[-2] not in "aeou":
        return noun[:-1] + "ies"
    return noun + ("es" if noun.endswith(("ch", "sh", "s", "x")) else "s")


def article(noun: str) -> str:
    """A thing with its article."""
    return f"an {noun}" if noun[0] in "aeio" else f"a {noun}"


def key_of(words: str) -> str:
    """A wording as an identifier."""
    return words.replace("-", "_").replace(" ", "_").replace("3D", "three_d").lower()


def draw_states(rng: Random, count: int) -> tuple[str, list[State]]:
    """A thing with booleans for its states; sometimes one for the opposite."""
    things, _, pairs = rng.choice(STATES).partition("|")
    states = []
    for pair in rng.sample(pairs.split(";"), count):
        yes, no = (side.split(",") for side in pair.split("/"))
        plain = " " not in no[0] and not no[0].startswith("non-")
        if plain and rng.random() < 0.3:
            yes, no = no, yes
        key = key_of(yes[0])
        states.append((f"is_{key}" if rng.random() < 0.3 and " " not in yes[0] else key, yes, no))
    return rng.choice(things.split(",")), states


def phrase_state(state: State, thing: str, rng: Random) -> str:
    """A request that sets a switch; the value is what its words mean."""
    key, yes, no = state
    value = rng.random() < 0.5
    said, other = (yes, no) if value else (no, yes)
    negated = [word for word in other if not word.startswith(("not ", *SAME_SIDE))]
    if negated and rng.random() < 0.3:
        form, word = rng.choice(SET_NOT), rng.choice(negated)
    else:
        form, word = rng.choice(SET_TO), rng.choice(said)
    mark, form = ("~", form[1:]) if form[0] == "~" else ("", form)
    text = form.replace("{a}", word)
    before, _, after = text.partition("{t}")
    stroke = "" if value else "/"
    # The words are the slot: what stands before and behind the thing decides, and either may be empty.
    if after.strip(" :->"):
        return f"{mark}{before}{thing}{{{key}:{stroke}{after}}}"
    return f"{mark}{{{key}:{stroke}{before.rstrip()}}} {thing}{after}"


def draw_state(rng: Random) -> TaskFunction:
    """A function that sets the state of one thing."""
    noun, states = draw_states(rng, 1)
    key, yes, no = states[0]
    stem = key_of(noun)
    spoken = yes[0]
    about = rng.choice(
        (
            f"Whether the {noun} is {spoken}",
            f"{spoken.capitalize()} or {no[0]}",
            f"The {noun} is {spoken}",
        )
    )
    flag = TaskParameter((key,), "boolean", "", (about,), False)
    named = rng.random() < 0.8
    generator = rng.choice(("slug", "id", "word", "title", "phrase", "first"))
    name = TaskParameter(
        (stem, f"{stem}_id", "name"), "string", generator, (f"Which {noun}",), False
    )
    verb = rng.choice(("set", "update", "change", "mark", "edit"))
    function = TaskFunction(
        stem,
        (f"{verb}_{stem}", f"{verb}_{stem}_state", f"set_{stem}_{key}"),
        (
            f"{verb.capitalize()} whether {article(noun)} is {spoken}.",
            f"State of {article(noun)}: {spoken} or {no[0]}.",
        ),
        [name, flag] if named else [flag],
        topic=noun,
    )
    for _ in range(6):
        thing = f"the {noun} {{{stem}}}" if named else f"the {noun}"
        if named and rng.random() < 0.3:
            thing = f"{{{stem}}}"  # who says "mark 4711 as read" need not say what it is
        function.requests.append(phrase_state(states[0], thing, rng))
    return function


def draw_field(lines: list[str], taken: set[str], rng: Random) -> tuple[TaskParameter, str] | None:
    """An optional field besides the booleans, and its wording."""
    names, kind, generator, said, about = rng.choice(lines).split("|")
    key = rng.choice(names.split(","))
    if key in taken:
        return None
    phrase = rng.choice(said.split(",")).replace("{}", f"{{{key}}}")
    return TaskParameter((key,), kind, generator, (about,), True), phrase


def draw_filter(rng: Random) -> TaskFunction:
    """A function that lists things of some state; what the request leaves out is not filtered."""
    noun, states = draw_states(rng, rng.choice((1, 2, 2, 3)))
    many, stem = plural(noun), key_of(noun)
    flags = [
        TaskParameter((key,), "boolean", "", (f"Only {yes[0]} ones, or only {no[0]}",), True)
        for key, yes, no in states
    ]
    lines = rng.sample(EXTRA_FIELDS, 2)
    fields = [field for line in lines if (field := draw_field([line], {noun}, rng))]
    verb = rng.choice(FIND)
    function = TaskFunction(
        stem,
        (f"{verb}_{key_of(many)}", f"{stem}_search", f"{verb}_{stem}_list"),
        (f"{verb.capitalize()} {many}.", f"{verb.capitalize()} {many}, all or only some."),
        rng.sample([*flags, *(field for field, _ in fields)], len(flags) + len(fields)),
        topic=noun,
    )
    for _ in range(5):
        said = [phrase for _, phrase in fields if rng.random() < 0.4]
        state = rng.choice(states) if rng.random() < 0.85 else None
        function.requests.append(phrase_filter(verb, many, state, said, rng))
    return function


def phrase_filter(verb: str, many: str, state: State | None, fields: list[str], rng: Random) -> str:
    """A request for things, of one state or of any."""
    tail = "".join(f"{rng.choice((' ', ', '))}{each}" for each in fields)
    if state is None:
        form = rng.choice(
            (f"{verb} {many}", f"{verb} the {many}", f"~which {many} are there", f"~{many}")
        )
        return form + tail + ("?" if form.startswith("~which") else "")
    key, yes, no = state
    value = rng.random() < 0.5
    said, other = (yes, no) if value else (no, yes)
    word = rng.choice(said)
    negated = [w for w in other if not w.startswith(("not ", *SAME_SIDE))]
    if negated and rng.random() < 0.3:
        word = f"not {rng.choice(negated)}"
    slot = f"{{{key}:{'' if value else '/'}{word}}}"
    forms = [
        f"{verb} {many} that are {slot}{tail}",
        f"{verb} the {many}{tail}, only {slot} ones",
        f"~which {many}{tail} are {slot}?",
        f"~{many}{tail}, {slot} only",
        f"~{many}{tail}: {slot}",
        f"~I only care about {many} that are {slot}{tail}",
    ]
    if not word.startswith(("not ", *SAME_SIDE)):
        forms += [
            f"{verb} {slot} {many}{tail}",
            f"{verb} the {slot} {many}{tail}",
            f"~{slot} {many}{tail}",
        ]
    return rng.choice(forms)


def draw_features(rng: Random) -> TaskFunction:
    """A function that gets a thing with or without what may come with it."""
    things, _, parts = rng.choice(FEATURES).partition("|")
    noun = rng.choice(things.split(","))
    stem = key_of(noun)
    features: list[tuple[str, str, bool]] = []  # key, wording, whether the switch means "without"
    for part in rng.sample(parts.split(";"), rng.choice((1, 2, 3, 3, 4))):
        bare = part.removeprefix("a ").removeprefix("an ")
        forms = (
            "{}",
            "{}",
            "with_{}",
            "include_{}",
            "has_{}",
            "{}_included",
            "needs_{}",
            "want_{}",
        )
        against = rng.random() < 0.1
        form = rng.choice(("no_{}", "without_{}", "exclude_{}")) if against else rng.choice(forms)
        features.append((form.format(key_of(bare)), part, against))
    flags = [
        TaskParameter(
            (key,), "boolean", "", (f"{'Without' if no else 'With'} {part}",), rng.random() < 0.85
        )
        for key, part, no in features
    ]
    field = draw_field(ORDER_FIELDS, {stem}, rng) if rng.random() < 0.7 else None
    verb = rng.choice(ORDER)
    function = TaskFunction(
        stem,
        (
            f"{key_of(verb)}_{stem}",
            f"{stem}_{key_of(verb)}",
            f"{key_of(verb)}_{key_of(plural(noun))}",
        ),
        (
            f"{verb.capitalize()} {article(noun)}.",
            f"{verb.capitalize()} {article(noun)} as you like it.",
        ),
        [*flags, field[0]] if field else flags,
        topic=noun,
    )
    for _ in range(5):
        chosen = [
            feature
            for feature, flag in zip(features, flags, strict=True)
            if not flag.optional or rng.random() < 0.55
        ]
        tail = f" {field[1]}" if field and rng.random() < 0.5 else ""
        lead = f"{rng.choice((verb, verb, '~I want to ' + verb))} {article(noun)}{tail}"
        function.requests.append(phrase_features(lead, chosen, rng))
    return function


def phrase_features(lead: str, chosen: list[tuple[str, str, bool]], rng: Random) -> str:
    """What comes with it and what does not, one by one or gathered."""
    wanted = [(key, part, against, rng.random() < 0.5) for key, part, against in chosen]
    rng.shuffle(wanted)
    if len(wanted) > 1 and rng.random() < 0.4:
        yes = [feature for feature in wanted if feature[3]]
        no = [feature for feature in wanted if not feature[3]]
        groups = [("with ", " and ", yes)] * bool(yes) + [("without ", " or ", no)] * bool(no)
        said = [
            mark + joint.join(slot(f[0], f[2], f[1], f[3]) for f in each)
            for mark, joint, each in groups
        ]
        rng.shuffle(said)
        return f"{lead} {rng.choice((' but ', ', ', ' and ')).join(said)}"
    parts = []
    for key, part, against, value in wanted:
        bare = part.removeprefix("a ").removeprefix("an ")
        words = rng.choice(WITH if value else WITHOUT).replace("{n}", part).replace("{b}", bare)
        parts.append(slot(key, against, words, value))
    return lead + "".join(f", {part}" for part in parts)


def draw_flag_phrases(rng: Random) -> TaskFunction:
    """A function with booleans for the manner of an action, worded by their meaning and not by their names."""
    verb, noun = rng.choice(DO), rng.choice(OBJECTS)
    switches: dict[str, tuple[list[str], list[str], str]] = {}
    lines = rng.sample(FLAG_PHRASES, rng.choice((1, 2, 2, 3)))
    kinds = {line.partition(",")[0] for line in lines}
    for line in lines[:1] if any(pair <= kinds for pair in APART) else lines:
        names, yes, no, about = line.split("|")
        key = rng.choice(names.split(","))
        switches.setdefault(key, (yes.split(","), no.split(","), about))
    name = TaskParameter(
        (noun, f"{noun}_id", "name"), "string", rng.choice(THINGS), (f"Which {noun}",), False
    )
    flags = [TaskParameter((key,), "boolean", "", (row[2],), True) for key, row in switches.items()]
    function = TaskFunction(
        noun,
        (f"{verb}_{noun}", f"{noun}_{verb}"),
        (
            f"{verb.capitalize()} {article(noun)}.",
            f"{third_person(verb).capitalize()} the {noun} named.",
        ),
        [name, *flags],
        topic=noun,
    )
    for _ in range(5):
        said = [(key, *row[:2]) for key, row in switches.items() if rng.random() < 0.6]
        rng.shuffle(said)
        parts = [f"{{{key}:{rng.choice(yes)}/{rng.choice(no)}}}" for key, yes, no in said]
        lead = rng.choice((f"{verb} the {noun} {{{noun}}}", f"~{noun} {{{noun}}}: {verb} it"))
        function.requests.append(lead + "".join(f", {part}" for part in parts))
    return function


def slot(key: str, against: bool, words: str, value: bool) -> str:
    """A switch with its words; one that means "without" is true where the thing is not wanted."""
    return f"{{{key}:{'' if value != against else '/'}{words}}}"
