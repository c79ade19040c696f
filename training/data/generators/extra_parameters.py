"""Written functions with one additional, unrelated parameter.

Held-out functions have optional parameters that training never saw. A function that always has the same ones teaches
which of *them* requests mean; one that gets another each time teaches to check whether the request means it.
"""

from __future__ import annotations

import re
from dataclasses import replace
from random import Random

from training.data.generators.choices import ask_enum, draw_enum_parameter, draw_extra, words_of
from training.data.tasks import TaskFunction, TaskParameter

SWITCH = 0.6  # share of the switches; the rest are choices
#: Generators of free text, after which nothing can be added to a request.
FREE = ("text", "phrase", "sentence", "topic", "title", "word", "code", "sql", "regex", "template")


def words(text: str) -> set[str]:
    """The longer words of a text."""
    return {word for word in re.findall(r"[a-z]+", text.lower()) if len(word) > 3}


def known(function: TaskFunction) -> set[str]:
    """All words of a function and its requests."""
    texts = [*function.names, *function.abouts, *function.requests]
    for parameter in function.parameters:
        texts += [*parameter.names, *parameter.abouts, parameter.generator]
    return words(" ".join(texts))


def draw_more(rng: Random, taken: set[str]) -> tuple[TaskParameter, str] | None:
    """An optional parameter and its wording; None if one of its words is taken."""
    if rng.random() < SWITCH:
        found = draw_extra(rng, [])
    else:
        enum = draw_enum_parameter(rng, set())
        assert enum  # no name is taken
        enum = replace(enum, optional=True)
        found = enum, ask_enum(enum, rng, named=rng.random() < 0.3)
    assert found  # no name is taken
    parameter, said = found
    spoken = {said.replace("_", " "), *parameter.names, *parameter.abouts}
    if parameter.type == "enum":
        spoken |= words_of(parameter)
    return None if words(" ".join(spoken)) & taken else (parameter, said)


def with_addition(request: str, more: str, free: set[str]) -> str:
    """A request with an addition; unchanged if it ends with free text."""
    body = request.rstrip("?.! ")
    last = re.search(r"\{(\w+)[^{}]*\}$", body)
    if (last and last[1] in free) or body.endswith("]"):
        return request
    return f"{body} [, {more}]{request[len(body) :]}"


def with_extra_parameter(function: TaskFunction, rng: Random) -> TaskFunction:
    """A copy with one more optional parameter, which its requests may mention; the function itself if none is new."""
    taken = known(function)
    for _ in range(4):
        if found := draw_more(rng, taken):
            break
    else:
        return function
    parameter, said = found
    at = rng.randrange(len(function.parameters) + 1)
    free = {p.key for p in function.parameters if p.generator.split("(")[0] in FREE}
    return replace(
        function,
        parameters=[*function.parameters[:at], parameter, *function.parameters[at:]],
        requests=[with_addition(request, said, free) for request in function.requests],
    )
