"""Formats of people's own: a TOML file or a Python file, used by its path; and telling formats apart."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from callmemaybe.errors import InputError
from callmemaybe.generation.config import find_format
from callmemaybe.grammar import compile as compile_grammar
from callmemaybe.grammar.nodes import Control
from callmemaybe.tools import ToolCall, ToolSpec
from callmemaybe.wire import format_mapping as declared
from callmemaybe.wire import formats

EXAMPLE = re.sub(r"^    ", "", (declared.__doc__ or "").split("::\n")[1], flags=re.MULTILINE)
TOOLS = [ToolSpec("f", parameters={"type": "object", "properties": {"a": {"type": "integer"}}})]
CALLS = [ToolCall("f", '{"a": 1}'), ToolCall("f", "{}")]


def test_the_example_of_the_docs_is_a_format(tmp_path: Path) -> None:
    """What the module shows can be used as it stands: written, allowed, read, and prompted with."""
    path = tmp_path / "angle.toml"
    path.write_text(EXAMPLE, encoding="utf-8")
    form = find_format(str(path))
    parts = form.render(CALLS)
    assert parts[:2] == (Control("<call>"), 'f {"a": 1}')
    assert form.read(parts) == CALLS
    automaton = compile_grammar(form.grammar(TOOLS, no_call=True, parallel=True))
    assert list(automaton.controls(automaton.start)) == ["<call>"]
    assert form.read(["none"]) == []
    prompt = form.prompt([{"role": "user", "content": "x<call>"}], TOOLS)
    text = "".join(p if isinstance(p, str) else f"«{p.text}»" for p in prompt)
    assert text.startswith('<|system|>Functions: [{"type": "function"')
    assert text.endswith("<|user|>x<call><|end|><|assistant|>")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ('name = "angle"', "name: it is missing"),
        ("between = [", 'between: {"text"'),
        ('"arguments", ', 'calls: it needs one "name"'),
        ('no_call = {text = "none"}', "nothing: there is no such key"),
        ('user = ["<|user|>", "<|end|>"]', "chat, user: it must be two texts"),
        ('ask = "<|assistant|>"', "chat, ask: it must be of type str"),
    ],
)
def test_a_wrong_declaration_says_where(change: str, message: str, tmp_path: Path) -> None:
    """Each mistake is told with the file and the key."""
    instead = {
        "between = [": 'between = [{"txt" = "x"}, ',
        'no_call = {text = "none"}': "nothing = 1",
        'user = ["<|user|>", "<|end|>"]': 'user = ["x"]',
        'ask = "<|assistant|>"': "ask = 1",
    }
    path = tmp_path / "wrong.toml"
    path.write_text(EXAMPLE.replace(change, instead.get(change, ""), 1), encoding="utf-8")
    with pytest.raises(InputError) as caught:
        find_format(str(path))
    assert "wrong.toml" in str(caught.value)
    assert message.split(":", maxsplit=1)[0] in str(caught.value)


def test_a_python_file_carries_a_format(tmp_path: Path) -> None:
    """Its constant FORMAT is the format; without one, or when it fails, the error names the file."""
    path = tmp_path / "mine.py"
    path.write_text(
        "from callmemaybe.wire import formats\nFORMAT = formats.get('hermes')\n", encoding="utf-8"
    )
    assert find_format(str(path)) is formats.get("hermes")
    for text in ("FORMAT = 3", "1 / 0"):
        path.write_text(text, encoding="utf-8")
        with pytest.raises(InputError, match=r"mine\.py"):
            find_format(str(path))
    for missing in ("no.py", "no.toml"):
        with pytest.raises(InputError, match="no"):
            find_format(str(tmp_path / missing))


#: What of a model's files gives its format away: words of its template, and its control tokens.
SIGNS = [
    ("hermes", '<tool_call>\n{"name": <function-name>, "arguments"', ("<|im_start|>", "<|im_end|>")),
    ("qwen3_coder", "<tool_call>\n<function=f>\n<parameter=", ("<|im_start|>", "<|im_end|>")),
    ("exaone", "[|assistant|] <tool_call> arguments", ("[|assistant|]", "[|endofturn|]")),
    ("llama3_json", '"parameters": dictionary ipython "parameters": ',
     ("<|start_header_id|>", "<|end_header_id|>")),
    ("pythonic", "func_name1(params_name1=params_value1", ("<|start_header_id|>", "<|end_header_id|>")),
    ("mistral", "[TOOL_CALLS] [", ("[INST]", "[TOOL_CALLS]", "[TOOL_RESULTS]")),
    ("mistral_v11", "[TOOL_CALLS][CALL_ID][ARGS]", ("[INST]", "[TOOL_CALLS]", "[CALL_ID]", "[ARGS]")),
    ("mistral_v13", "[TOOL_CALLS] name [ARGS]", ("[INST]", "[TOOL_CALLS]", "[ARGS]", "[TOOL_RESULTS]")),
    ("functiongemma", "<start_function_call>call:",
     ("<start_function_call>", "<end_function_call>", "<escape>")),
    ("gemma4", "<|tool_call>call:", ("<|tool_call>", "<tool_call|>", '<|"|>')),
    ("harmony", "<|channel|>commentary to=functions.", ("<|channel|>", "<|message|>", "<|call|>")),
    ("deepseek_v3", "<｜tool▁calls▁begin｜> ```json",
     ("<｜tool▁calls▁begin｜>", "<｜tool▁call▁begin｜>", "<｜tool▁sep｜>")),
    ("deepseek_v31", "<｜tool▁calls▁begin｜> tool_call_arguments",
     ("<｜tool▁calls▁begin｜>", "<｜tool▁call▁begin｜>", "<｜tool▁sep｜>")),
    ("granite3", "<|start_of_role|> <|tool_call|>",
     ("<|tool_call|>", "<|start_of_role|>", "<|end_of_role|>")),
    ("phi4_mini", "<|tool|>", ("<|tool_call|>", "<|/tool_call|>", "<|tool|>")),
    ("lfm2", "<|im_start|> <|tool_list_start|>",
     ("<|tool_call_start|>", "<|tool_call_end|>", "<|im_start|>", "<|im_end|>")),
    ("xlam", "<|im_start|> make calls in a single JSON array", ("<|im_start|>", "<|im_end|>")),
]  # fmt: skip
#: Families whose published templates are not quoted above: what they declare has to tell them from all others.
SIGNS += [
    (form.name, " ".join(form.template_has), tuple(form.controls))
    for form in map(formats.get, formats.names())
    if form.name not in {name for name, _, _ in SIGNS} | {"nano", "json_list"}
]


@pytest.mark.parametrize(("name", "template", "controls"), SIGNS, ids=[s[0] for s in SIGNS])
def test_a_model_gives_its_format_away(name: str, template: str, controls: tuple[str, ...]) -> None:
    """Words of the template and control tokens tell each family from all others."""
    assert formats.detect(template, frozenset(controls)).name == name


def test_every_family_can_be_told() -> None:
    """Only nano (told by its tokens) and plain JSON (chosen by name) are not in the list above."""
    told = {name for name, template, controls in SIGNS if template or controls}
    assert told == set(formats.names()) - {"nano", "json_list"}
