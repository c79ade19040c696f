"""The help of the program: its commands by what they are for, each with examples that can be typed.

``EXAMPLES`` are commands as a newcomer types them in a checkout, or in a folder with files of these names.
"""

from __future__ import annotations

from typing import Any

from typer.core import TyperCommand, TyperGroup

#: Commands by what they are for, as ``callmemaybe --help`` lists them.
SECTIONS = {
    "Requests": ("call", "chat", "run"),
    "Tools": ("check", "exec", "approvals", "reconcile", "audit"),
    "Models": ("models", "formats", "serve"),
    "Measure": ("eval", "show"),
    "Improve": ("tune",),
    "Settings": ("config",),
}
#: Options by what they are for, in every command; all others come first.
OPTION_SECTIONS = {
    "Tools": ("functions_definition", "tools", "only", "skip", "allow_private", "base_url"),
    "Answers": (
        "max_tokens", "temperature", "top_p", "top_k", "min_p", "seed", "best_of", "beam", "logprobs", "no_call",
        "choose", "order", "ground", "ground_in", "now",
    ),
    "Scale": ("batch", "workers", "ray", "prefix_cache", "slots", "queue", "prompt_cache"),
    "Gateway": ("yes", "secrets", "db", "anchors", "anchor_command", "anchor_calls"),
}  # fmt: skip
EXAMPLES = {
    "": (
        'callmemaybe call "Is 97 a prime number?" --tools data/input/functions_definition.json',
        "callmemaybe chat --tools tools.py",
        "callmemaybe COMMAND --help",
    ),
    "call": (
        'callmemaybe call "Is 97 a prime number?" --tools data/input/functions_definition.json',
        'callmemaybe call "Is it warm in Oslo?" --tools tools.py --run --yes read',
        'echo "Add 2 and 3" | callmemaybe call --tools functions.json --json',
    ),
    "chat": (
        "callmemaybe chat --tools tools.py",
        "callmemaybe chat --tools openapi.yaml --only 'get*' --yes read",
    ),
    "run": (
        "callmemaybe run --tools data/input/functions_definition.json --input data/input/function_calling_tests.json --output calls.json",
        "callmemaybe run --input prompts.jsonl --output calls.jsonl --resume --workers 4",
        "callmemaybe run --format csv > calls.csv",
    ),
    "check": ("callmemaybe check data/input/functions_definition.json --brief",),
    "exec": ("callmemaybe exec calls.json --tools tools.py --yes read,idempotent",),
    "models": ("callmemaybe models pull Qwen/Qwen3-0.6B-GGUF:Q8_0",),
    "models pull": ("callmemaybe models pull onnx-community/Qwen3-0.6B-ONNX:q4",),
    "formats": ("callmemaybe formats hermes",),
    "serve": (
        "callmemaybe serve",
        "callmemaybe serve --model Qwen/Qwen3-0.6B-GGUF:Q8_0 --port 8000",
    ),
    "eval": ("callmemaybe eval cases.jsonl --report report",),
    "tune": (
        "callmemaybe tune --tools tools.py --examples examples.jsonl --output my-model",
        "callmemaybe tune --tools tools.py --examples examples.jsonl --review 20 --output my-model",
    ),
    "show": ("callmemaybe show trace.jsonl --output trace.html",),
}


class CommandWithExamples(TyperCommand):
    """A command whose help lists its options by what they are for, and ends with its examples."""

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Write arguments and options in sections."""
        sections: dict[str, list[tuple[str, str]]] = {"Arguments": [], "Options": []}
        sections |= {title: [] for title in OPTION_SECTIONS}
        titles = {name: title for title, names in OPTION_SECTIONS.items() for name in names}
        for parameter in self.get_params(ctx):
            record = parameter.get_help_record(ctx)
            if record is not None:
                is_option = parameter.param_type_name == "option"
                title = titles.get(str(parameter.name), "Options") if is_option else "Arguments"
                sections[title].append(record)
        for title, records in sections.items():
            if records:
                with formatter.section(title):
                    formatter.write_dl(records)

    def format_epilog(self, ctx: Any, formatter: Any) -> None:
        """Write the examples as they are typed, each on a line that no width breaks."""
        _write_examples(ctx, formatter)


class GroupWithExamples(TyperGroup):
    """The program, or a group of commands, with examples."""

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """Write the commands, those of the program by what they are for."""
        if ctx.parent is not None:
            super().format_commands(ctx, formatter)
            return
        width = max(map(len, self.commands))
        for title, names in SECTIONS.items():
            with formatter.section(title):
                formatter.write_dl(
                    [
                        (
                            name.ljust(width),
                            self.commands[name].get_short_help_str(formatter.width - width - 4),
                        )
                        for name in names
                    ]
                )

    def format_epilog(self, ctx: Any, formatter: Any) -> None:
        """Write the examples."""
        _write_examples(ctx, formatter)


def _write_examples(ctx: Any, formatter: Any) -> None:
    examples = EXAMPLES.get(ctx.command_path.partition(" ")[2], ())
    if examples:
        with formatter.section("Examples"):
            for line in examples:
                formatter.write(f"{'':>{formatter.current_indent}}{line}\n")
