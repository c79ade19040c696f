"""Defaults of options that a user sets once: in a file, or in variables of the environment.

What is typed goes before a variable, that before the file, that before the program's own default. The file
is the user's own, or the one that ``CALLMEMAYBE_CONFIG`` names; a folder that somebody works in has none of its own, since
who wrote what lies there must not decide where requests are sent or what runs without asking.
"""

from __future__ import annotations

import os
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import typer

from callmemaybe.cli.process import printable
from callmemaybe.errors import InputError
from callmemaybe.sources.texts import read_text

#: Names the file; set and empty, no file is read.
CONFIG_VARIABLE = "CALLMEMAYBE_CONFIG"
#: ``check`` is given a file, or tools to look at: tools that are meant for requests are neither.
_NOT_FOR = {("check", "tools")}
#: Options that CALLMEMAYBE_<NAME> sets, in every command that has them.
VARIABLES = (
    "model", "tools", "only", "skip", "allow-private", "base-url", "max-tokens", "no-call", "ground", "order",
    "yes", "db", "secrets", "anchors", "host", "port",
)  # fmt: skip


@dataclass
class OptionDefaults:
    """Defaults as the command line takes them, by command and parameter, and where each comes from."""

    values: dict[str, Any] = field(default_factory=dict)
    origins: dict[tuple[str, str], str] = field(default_factory=dict)

    def put(self, path: str, option: Any, value: Any, origin: str) -> None:
        """Set the default of one option of the command at ``path`` ("audit list")."""
        at = self.values
        for name in path.split():
            at = at.setdefault(name, {})
        at[option.name] = _typed(value, is_list=option.multiple)
        self.origins[path, option.name] = origin

    def origin_of(self, error: Any) -> str | None:
        """Return where the value comes from that a mistake in the options is about, if it was not typed."""
        context, option = getattr(error, "ctx", None), getattr(error, "param", None)
        if context is None or option is None:
            return None
        source = context.get_parameter_source(option.name)
        path = context.command_path.partition(" ")[2]
        return (
            self.origins.get((path, option.name))
            if source and source.name == "DEFAULT_MAP"
            else None
        )


def _typed(value: Any, *, is_list: bool) -> Any:
    """Return a value as it would be typed: text, or a list of texts; flags and numbers as they are."""
    if is_list:
        return [str(one) for one in value] if isinstance(value, list) else [str(value)]
    return value if isinstance(value, bool | int | float | str) else str(value)


def config_path() -> Path | None:
    """Return the file of defaults, ``~/.config/callmemaybe/config.toml`` on most systems; None for no file."""
    named = os.environ.get(CONFIG_VARIABLE)
    if named is not None:
        return Path(named).expanduser() if named else None
    base = os.environ.get("XDG_CONFIG_HOME") or (
        os.environ.get("APPDATA") if os.name == "nt" else None
    )
    try:
        folder = Path(base) if base else Path.home() / ".config"
    except RuntimeError:  # a user without a home
        return None
    return folder / "callmemaybe" / "config.toml"


def read_defaults(program: Any) -> OptionDefaults:
    """Return the defaults for ``program``'s commands.

    Raises InputError for a file that cannot be read, is no TOML, or sets what no command has.
    """
    found = OptionDefaults()
    commands = dict(_commands(program))
    path = config_path()
    if path is not None and (path.exists() or CONFIG_VARIABLE in os.environ):
        _read_file(found, commands, path)
    for name in VARIABLES:
        variable = "CALLMEMAYBE_" + name.upper().replace("-", "_")
        value = os.environ.get(variable)
        if value:
            _put_all(found, commands, name, value, variable)
    return found


def _read_file(found: OptionDefaults, commands: Mapping[str, Any], path: Path) -> None:
    if path.is_file() and path.stat().st_size == 0:
        return
    try:
        content = tomllib.loads(read_text(path))
    except tomllib.TOMLDecodeError as error:
        raise InputError(f"this is no TOML: {error}", where=str(path)) from None
    except RecursionError:
        raise InputError("lists or tables nest too deeply", where=str(path)) from None
    tables = {key: value for key, value in content.items() if isinstance(value, dict)}
    for key, value in content.items():
        if key not in tables:
            where = f"{path}: {key}"
            if not _put_all(found, commands, key, value, where):
                raise InputError(f"no command has an option --{key}", where=str(path))
    for name, table in _tables(tables, commands):
        _put_table(found, commands, name, table, path)


def _tables(
    tables: Mapping[str, Any], commands: Mapping[str, Any], before: str = ""
) -> Iterator[tuple[str, Any]]:
    """Yield the tables by their commands; a table of a group holds those of its commands."""
    for name, table in tables.items():
        path = f"{before}{name}"
        options = {key: value for key, value in table.items() if f"{path} {key}" not in commands}
        yield path, options
        yield from _tables(
            {key: table[key] for key in table if key not in options}, commands, f"{path} "
        )


def _put_table(
    found: OptionDefaults,
    commands: Mapping[str, Any],
    name: str,
    table: Mapping[str, Any],
    path: Path,
) -> None:
    command = commands.get(name)
    if command is None:
        raise InputError(f"there is no command {name!r}", where=f"{path}: [{name}]",
                         hint="callmemaybe --help lists all")  # fmt: skip
    options = dict(_options(command))
    for key, value in table.items():
        where = f"{path}: [{name}] {key}"
        if key not in options:
            raise InputError(f"callmemaybe {name} has no option --{key}", where=where,
                             hint=f"callmemaybe {name} --help lists them")  # fmt: skip
        found.put(name, options[key], value, where)


def _put_all(
    found: OptionDefaults, commands: Mapping[str, Any], key: str, value: Any, origin: str
) -> bool:
    """Set a default of every command that has the option; return whether any has."""
    has_any = False
    for name, command in commands.items():
        option = dict(_options(command)).get(key)
        if option is not None and (name, key) not in _NOT_FOR:
            has_any = True
            lines = value.splitlines() if isinstance(value, str) and option.multiple else value
            found.put(name, option, lines, origin)
    return has_any


def _commands(group: Any, before: str = "") -> Iterator[tuple[str, Any]]:
    """Yield all commands by the words that name them."""
    for name, command in group.commands.items():
        yield before + name, command
        if hasattr(command, "commands"):
            yield from _commands(command, f"{before}{name} ")


def _options(command: Any) -> Iterator[tuple[str, Any]]:
    """Yield the options of a command by their names without dashes."""
    for parameter in command.params:
        if parameter.param_type_name == "option" and not parameter.is_eager:
            for name in parameter.opts:
                if name.startswith("--"):
                    yield name[2:], parameter


def show_config(context: typer.Context) -> None:
    """Show the file of defaults, and which defaults are set, by which file or variable.

    The file is TOML. A key is the name of an option and holds for every command that has it; a table holds for one
    command.
    """
    path = config_path()
    if path is None:
        typer.echo("no file of defaults is read")
    else:
        typer.echo(f"{path}{'' if path.exists() else ' (there is none yet)'}")
    found = read_defaults(context.find_root().command)
    for (command, name), origin in sorted(found.origins.items()):
        value: Any = found.values
        for word in command.split():
            value = value[word]
        typer.echo(
            f"  {command} --{_shown_name(name)} = {_shown(name, value[name])}   ({printable(origin)})"
        )


def _shown_name(name: str) -> str:
    return name.strip("_").replace("_", "-")


def _shown(name: str, value: Any) -> str:
    """Return a value for people; keys and passwords are not shown."""
    is_secret = "key" in name.split("_") or (name == "db" and "@" in str(value))
    return "(set)" if is_secret else printable(str(value))


def register(app: typer.Typer) -> None:
    """Add the command to the program."""
    app.command(name="config")(show_config)
