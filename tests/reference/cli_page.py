"""Page of commands: each with an example, its arguments and options, as typer knows them."""

from __future__ import annotations

import enum
from collections.abc import Iterator
from typing import Any, get_args

import click
from typer.main import get_command

from databus.cli.main import PANELS, app
from databus.cli.terminal.options import Dags, Output
from tests.reference.cli_examples import EXAMPLES
from tests.reference.markdown import plain
from tests.reference.option_types import type_text

LEFT_OUT = ("bench",)
"""Commands of measurements, which docs/benchmarks.md describes."""
COMMON = {"--dags": get_args(Dags)[1].help, "--output": get_args(Output)[1].help}
"""Options that many commands have, described once → their text."""

HEAD = """# Command line

Read this page to find an option of a command. [Commands](../commands.md) lists them by what you want to do, with exit
codes; `databus COMMAND --help` says the same as this page.

Many commands have these two:

"""


def commands() -> Iterator[tuple[tuple[str, ...], Any]]:
    """Yield words and command of every command that does something, in the order of help."""

    def below(command: Any, words: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], Any]]:
        if command.hidden or words[:1] in [(name,) for name in LEFT_OUT]:
            return
        if not hasattr(command, "list_commands"):
            yield words, command
            return
        context = click.Context(command)
        for name in command.list_commands(context):
            yield from below(command.get_command(context, name), (*words, name))

    yield from below(get_command(app), ())


def text() -> str:
    known = dict(commands())
    shared = [parameter for parameter in known["run",].params if is_common(parameter)]
    parts = [HEAD + "\n".join(map(parameter_text, shared)) + "\n"]
    for panel, names in PANELS.items():
        of = [(words, command) for words, command in known.items() if words[0] in names]
        parts += [f"## {panel}\n"] * bool(of)
        parts += [command_text(words, command) for words, command in of]
    return "\n".join(parts)


def command_text(words: tuple[str, ...], command: Any) -> str:
    own = [p for p in command.params if not is_common(p)]
    common = [f"`{p.opts[0]}`" for p in command.params if is_common(p)]
    lines = [f"### {' '.join(words)}", plain(command.help), "", "```", f"databus {EXAMPLES[words]}", "```", ""]
    lines += [parameter_text(parameter) for parameter in own]
    lines += [f"* {' and '.join(common)}: see above"] if common else []
    return "\n".join(lines) + "\n"


def is_common(parameter: Any) -> bool:
    """Tell whether an option is one of those that many commands share, and no other of its name."""
    return bool(COMMON.get(parameter.opts[0]) == parameter.help)


def parameter_text(parameter: Any) -> str:
    """Return a line about an argument or option: its names, form, default and meaning."""
    is_option = parameter.opts[0].startswith("-")
    name = ", ".join(f"`{each}`" for each in parameter.opts) if is_option else f"`{parameter.metavar}`"
    facts = [_form(parameter)] if is_option else []
    if parameter.required:
        facts.append("required")
    elif isinstance(parameter.show_default, str):
        facts.append(f"default: {plain(parameter.show_default)}")
    elif parameter.default not in (None, False, "", [], ()) and not callable(parameter.default):
        value = parameter.default
        facts.append(f"default `{value.value if isinstance(value, enum.Enum) else value}`")
    if parameter.envvar:
        facts.append(f"or the variable `{parameter.envvar}`")
    shown = ", ".join(fact for fact in facts if fact)
    return f"* **{name}**{f' ({shown})' if shown else ''}: {plain(parameter.help)}"


def _form(parameter: Any) -> str:
    if getattr(parameter, "is_flag", False):
        return ""
    found = type_text(parameter.type_descriptor.annotation)
    return {"`Path`": "path"}.get(found, found).replace('"', "")
