"""Functions described as documentation does: at length, and mostly of no use to the caller.

Written functions are described in a sentence; published ones in paragraphs. A network that has read the former
alone has never seen a word so far from the beginning of a tool.
"""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import Any

RESULTS = """Returns the result as a dictionary.|Returns an object with the result, or an error message.
The result is returned as plain text.|Returns a list of entries with their ids.|Returns null if nothing was found.
Returns a status code and a short message.|The response contains the data and some metadata.""".replace(
    "\n", "|"
).split("|")
NOTES = """Raises an error if something is missing.|Use this tool whenever the user asks for it.|Call it once per request.
Do not use it for anything else.|Requires an account that has been set up before.|No login is needed.
Results are cached for a short time.|This may take a few seconds.|See the documentation for details.
Only values that the user has given should be passed.|Arguments that are not needed may be left out.
Fails if the service cannot be reached.|At most a hundred calls per minute are allowed.|Part of the {domain} toolkit.
Available in all plans.|This function belongs to the module {domain}.|Note that the names of arguments are case sensitive.
The caller is responsible for the arguments.|Never guess values that were not mentioned.|Works in every region.""".replace(
    "\n", "|"
).split("|")
OF_TYPE = {
    "string": "Must be a string.|A non-empty string.|Given as text.|The value is passed on as it is.|A string value.",
    "number": "Must be a number.|Given as a number (int or float).|A numeric value.|Decimals are allowed.",
    "integer": "Must be an integer.|A whole number.|Given as an int.|No decimals.",
    "boolean": "A boolean flag.|Either true or false.|Boolean.|A flag.",
    "array": "A list.|Provide a list, even for a single element.|Given as an array.|The order is kept.",
    "enum": "Must be one of the listed values.|Only the given values are accepted.|One of the values above.",
}
REQUIRED = (
    "This parameter is required.", "Required.", "Must always be given.", "Mandatory.", "(required)",
)  # fmt: skip
OPTIONAL = """This parameter is optional.|Optional.|May be left out.|If not provided, a default is used.|Not required.
Leave it out if the user does not mention it.|Defaults to None.|Can be omitted.|(optional)""".replace(
    "\n", "|"
).split("|")


def sentences(parts: Sequence[str]) -> str:
    """Join sentences, each with its full stop."""
    return " ".join(part if part[-1] in ".!?)" else f"{part}." for part in parts)


def document_tool(tool: dict[str, Any], abouts: Sequence[str], domain: str, rng: Random) -> None:
    """Describe a tool at length, in place: with all its descriptions, and with general remarks."""
    parts = rng.sample(list(abouts), min(len(abouts), rng.choice((1, 2, 2, 3))))
    common = rng.sample(NOTES, rng.choice((0, 1, 1, 2, 3)))
    if rng.random() < 0.5:
        common.insert(0, rng.choice(RESULTS))
    tool["description"] = sentences([*parts, *common]).replace("{domain}", domain)


def document_parameter(
    schema: dict[str, Any], abouts: Sequence[str], rng: Random, *, optional: bool
) -> None:
    """Describe a parameter at length, in place; its description stays in front."""
    parts = [schema["description"]] if "description" in schema else []
    others = [about for about in abouts if not parts or about.lower() not in parts[0].lower()]
    if others and (not parts or rng.random() < 0.4):
        parts.append(rng.choice(others))
    kind = "enum" if "enum" in schema else schema["type"]
    if rng.random() < 0.45 and kind in OF_TYPE:
        parts.append(rng.choice(OF_TYPE[kind].split("|")))
    if rng.random() < 0.4 and not any("ption" in each or "efault" in each for each in parts):
        parts.append(rng.choice(OPTIONAL if optional else REQUIRED))
    if parts:
        schema["description"] = sentences(parts)
