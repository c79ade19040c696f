"""vLLM's own tests of tool parsers as a ratchet: they run as they are, on a stand-in for vLLM.

``python ratchets/fetch.py --peers`` fetches the tests; nothing of theirs is committed. They import ``vllm``, which is
here ``stand_ins/vllm_tests``: its parsers are readers of this package's formats, and its tokenizers have characters
and control tokens, so that a stream that a test cuts at its model's tokens is cut finer. What a test asks and the
stand-in lacks leaves that test out. Tests that vLLM marks as failing for its own parsers count like the others.
"""

# ruff: noqa: INP001 - a script, not a package

from __future__ import annotations

import sys
from pathlib import Path

from peer_tests import judged, outcomes

HERE = Path(__file__).parent
DESCRIPTION = "vLLM 0.33.0, tests/tool_parsers"
#: Files about something else.
OTHER = {
    "test_structural_tag_registry.py": "grammars in xgrammar's form",
    "test_utils.py": "functions of vLLM's own parsers",
}

#: Words of a test's name, words of how it ended, and what is made of it; the first that fits.
REASONS = (
    (r"minimax_m3.*nested", r"not valid JSON", "differs: a number has no leading zeros, and an object has each name once"),
    (r"adjust_request|structural_tag|named_tool|named_(custom_)?choice|large_integer|request_format",
     r"AttributeError|TypeError", "left out: asks for the fields of a request or a grammar in xgrammar's form"),
    # What no reader of ours is lenient about.
    (r"malformed|invalid_json|incomplete|until_eos|missing_tool_suffix|truncated|escaped_quote_unclosed|parallel_calls_nonstreaming1|missing_function_end|param_missing_name|none_tool_calls|invalid_funcall|empty_tool_(section|call)|no_gt_delim|noise_between|missing_(name|parameters)|stray_end|fallback_no_tags|bare_|mixed_calls|colon_in_content|missing_(opening|closing|tool_calls_wrapper|closing_parameter)|wrapper_is_not|echoed|block_does_not|no_functions_prefix|with_list_structure|json_fallback|emits_complete_json",
     r"", "differs: what is not in the family's form is an error that says where, and is neither guessed at nor given out as text"),
    (r"xlam", r"does not fit|assert False", "differs: this family answers with a list of calls or with a text, not with both, and without a fence"),
    (r"", r"b'[A-Zah]' does not fit", "differs: no text stands behind calls"),
    (r"preserves_text_after|multiple_tools$|text_after|content_after|interleaved|model_deltas2|plain_text_after", r"does not fit", "differs: no text stands behind calls"),
    (r"with_eos", r"", "differs: the token that ends a turn is the engine's, and no part of the output"),
    (r"text_before_tool_call|glm45_newline|whitespace_content|surrounding_content|test_extract_tool_calls\[(single_tool|parallel_tools)\]",
     r"== '|== \"|is None|== None", "differs: text in front of calls is kept as it is written"),
    (r"ernie45", r"</think>", "differs: whether the prompt has opened the thought cannot be seen in an output"),
    # Values.
    (r"coerced|wrapper|wrapped|extra_arg|alias|duplicate_param|case_sensitive_param|multi_typed|number_param|conversion_fallbacks",
     r"", "differs: names and values stay as the model writes them; that they suit the schema is checked behind the reader"),
    (r"unknown_tool", r"", "differs: a call of a function that is not offered is a call, and refused behind the reader"),
    (r"cdata", r"", "differs: a string ends at its closing tag; CDATA blocks are not written"),
    (r"space_marker|collapsed|sentencepiece", r"", "differs: a model's text is decoded by its tokenizer before it is read"),
    (r"set_arg|leading_zero|nested_quote|nested_python_c", r"", "differs: a value that is no Python literal, or that JSON has no value for"),
    (r"minimax_m2|dots|qwen3coder|step3p5.*chunk_boundary", r"does not fit", "differs: elements stand on lines of their own, as in the family's template; a text may hold their tags otherwise"),
    # Families.
    (r"granite4", r"b'\"' does not fit", "differs: arguments are an object, not a string with one in it"),
    (r"granite_tool.*(string_prefix|data_types|escaped_strings)", r"got 0", "differs: calls begin with the token <|tool_call|>, not with a text that looks like it"),
    (r"granite_tool.*batched", r"", "differs: a call's name stands in front of its arguments"),
    (r"k2_horizon.*registered", r"AttributeError", "left out: asks for K2HorizonToolParser.supports_required_and_named"),
    (r"k2_horizon.*(format_overrides|mismatched|wrong_named|request[123])", r"",
     "differs: the form that the family's chat template has by default, not those that a request may ask it for"),
    (r"kimi_k2", r"call_|assert False", "differs: ids are given by whoever runs the calls; the number behind a name only counts them"),
    (r"llama3_json.*(simple|surrounding)", r"", "differs: a call of this family is the whole of an answer"),
    (r"llama3_json.*(multiple)", r"", "differs: this family calls one function in a turn"),
    (r"llama3_json.*arguments_key", r"", "differs: the key of the arguments is the one that the family's prompt asks for"),
    (r"phi4mini", r"", "differs: the form of a chat template of vLLM's, not of the one that comes with the model"),
    (r"step3_tool", r"", "differs: calls have the type in front that the model writes, which vLLM's own parser asks for, too (its tests are marked as failing)"),
)  # fmt: skip


def results(root: Path) -> dict[str, str]:
    """Return "passed", "differs: why", "left out: why" or "fails: how" for each test."""
    folder = root / "tests" / "tool_parsers"
    files = [file for file in sorted(folder.glob("test_*.py")) if file.name not in OTHER]
    found = outcomes(
        root,
        files,
        stand_ins=[HERE / "stand_ins" / "vllm_tests", HERE / "stand_ins", HERE, root],
        options=["--runxfail"],
    )
    return {
        name.removeprefix("tests/tool_parsers/"): judged(name, outcome, REASONS)
        for name, outcome in found.items()
    }


if __name__ == "__main__":
    for name, result in results(Path(sys.argv[1])).items():
        if result.startswith("fails"):
            print(name, "|", result)
