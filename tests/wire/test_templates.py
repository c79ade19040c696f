"""What formats write for calls, beside what the chat templates that were published with the models write.

The templates are read from a copy of llama.cpp (``python ratchets/fetch.py --peers``); none of them is here.
"""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import Any

import pytest
from jinja2 import TemplateError
from jinja2.sandbox import SandboxedEnvironment

from callmemaybe.grammar.nodes import Control
from callmemaybe.tools import ToolCall, ToolSpec

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "ratchets"))
import llama_cpp_chat  # noqa: E402

_PLACES = [
    folder / "peers" / "llama.cpp" / "models" / "templates"
    for folder in (ROOT.parent / "shared" / "data", ROOT / "ratchets" / "data")
]
FOLDER = next((place for place in _PLACES if place.exists()), None)
ARGUMENTS = {"unit": "c", "city": 'Zürich "HB"', "n": 2}
PARAMETERS = {
    "type": "object",
    "properties": {
        "unit": {"type": "string", "description": "Unit"},
        "city": {"type": "string", "description": "City"},
        "n": {"type": "integer", "description": "Days"},
    },
    "required": ["city"],
}
CALLS = [("get_weather", ARGUMENTS, "abcDEF1234"), ("look_up", {"city": "Oslo"}, "xyzXYZ7890")]
#: Templates that write calls otherwise than their models, or not at all, and why.
OTHERWISE = {
    "Apriel-1.6-15b-Thinker-fixed": "gives earlier calls the client's ids, which it asks no model for",
    "unsloth-Apriel-1.5": "gives earlier calls the client's ids, which it asks no model for",
    "CohereForAI-c4ai-command-r-plus-tool_use": "indents the arguments, which a model's mask need not have it do",
    "LFM2-8B-A1B": "writes no calls",
    "LFM2.5-Instruct": "writes no calls",
    "LFM2.5-8B-A1B": "strings as Python's repr, in either quote; the reader takes both",
    "deepseek-ai-DeepSeek-R1-Distill-Llama-8B": "writes no calls",
    "llama-cpp-deepseek-r1": "does not render outside llama.cpp",
    "fireworks-ai-llama-3-firefunction-v2": "takes tools by another name than any client gives",
    "ibm-granite-granite-3.3-2B-Instruct": "writes no calls",
    "mistralai-Mistral-Nemo-Instruct-2407": "no space in front of the list, which version 3 of the tokenizer has",
    "openai-gpt-oss-120b": "earlier calls have their headers in another order than models write",
}


def render(source: str, calls: list[tuple[str, Any, str]], as_text: bool, system: bool) -> str:
    """Render a conversation with these calls by a template."""
    environment = SandboxedEnvironment(
        trim_blocks=True,
        lstrip_blocks=True,
        extensions=["jinja2.ext.loopcontrols", "jinja2.ext.do"],
        autoescape=False,
    )
    environment.filters["tojson"] = lambda value, **given: json.dumps(
        value, ensure_ascii=False, indent=given.get("indent"), separators=given.get("separators")
    )
    environment.globals["raise_exception"] = lambda message: (_ for _ in ()).throw(
        ValueError(message)
    )
    environment.filters["from_json"] = json.loads
    environment.globals["strftime_now"] = lambda _: "2026-01-01"
    written = [
        {"id": at, "type": "function", "function": {
            "name": name, "arguments": json.dumps(given, ensure_ascii=False) if as_text else given}}
        for name, given, at in calls
    ]  # fmt: skip
    messages = [
        *([{"role": "system", "content": "Be brief."}] if system else []),
        {"role": "user", "content": "Weather?"},
        {"role": "assistant", "content": "", "tool_calls": written},
        *({"role": "tool", "tool_call_id": at, "name": name, "content": "fine"} for name, _, at in calls),
        {"role": "assistant", "content": "Fine."},
        {"role": "user", "content": "Again."},
    ]  # fmt: skip
    tools = [ToolSpec(name, "Tells.", PARAMETERS).as_openai() for name, _, _ in calls]
    return environment.from_string(source).render(
        messages=messages, tools=tools, add_generation_prompt=True, bos_token="<s>",
        eos_token="</s>", enable_thinking=False,
    )  # fmt: skip


@pytest.mark.parametrize(
    "path", sorted(FOLDER.glob("*.jinja")) if FOLDER else [], ids=lambda p: p.stem
)
def test_calls_are_written_as_the_published_template_writes_them(path: Path) -> None:
    """The format that a template is detected as renders two calls (or one) to text that the template wrote."""
    source = re.sub(r"\{%-?\s*(end)?generation\s*-?%\}", "", path.read_text("utf-8"))
    form = llama_cpp_chat.form_of(source, path.stem)
    if form is None:
        pytest.skip("no format is detected")
    if path.stem in OTHERWISE:
        pytest.skip(OTHERWISE[path.stem])
    tools = [ToolSpec(name, "Tells.", PARAMETERS) for name, _, _ in CALLS]
    for calls in ([CALLS] if form.is_parallel else []) + [CALLS[:1]]:
        made = [ToolCall(name, json.dumps(given, ensure_ascii=False), at[: form.id_length or 10])
                for name, given, at in calls]  # fmt: skip
        parts = form.render(made, tools=tools)
        wanted = "".join(part.text if isinstance(part, Control) else part for part in parts)
        shortened = [(name, given, at[: form.id_length or 10]) for name, given, at in calls]
        outcomes = []
        for as_text, system in ((False, True), (True, True), (False, False), (True, False)):
            try:
                outcomes.append(render(source, shortened, as_text, system))
            except (
                ValueError,
                TypeError,
                TemplateError,
            ) as error:  # refuses this shape of a conversation
                outcomes.append(f"{error!r}")
        if any(wanted in text for text in outcomes):
            return
    pytest.fail(f"{form.name} writes {wanted!r}")
