"""Subcommands that are imported when they are asked for: a command pays for its own imports only."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable
from importlib import import_module
from typing import Any, ClassVar

import typer
from typer.core import TyperGroup
from typer.main import get_group

from databus.cli.server.choice import require_served
from databus.cli.terminal.output import ERR, stdout_for_data
from databus.core.packages import lacking, require


class LazyCommands(TyperGroup):
    """A group whose commands are names of modules until one is run, or help lists them all."""

    places: ClassVar[dict[str, str]] = {}
    """Command → "module:attribute" of a function or of a `typer.Typer` with commands of its own."""

    panels: ClassVar[dict[str, str]] = {}
    """Command → title of the part of help that lists it."""

    renamed: ClassVar[dict[str, str]] = {}
    """Old verb of a function → its new one; help does not list it."""

    extras: ClassVar[dict[str, str]] = {}
    """Command → extra that brings its packages; help lists it where they are installed."""

    def list_commands(self, ctx: Any) -> list[str]:  # noqa: ARG002
        """Return the names in the order in which help shows them."""
        return [name for name in self.places if not self._lacks(name)]

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """Return a command, imported now; None when there is none of that name.

        Raises:
            PackageMissingError: it comes with an extra that is not installed.
        """
        if cmd_name not in self.places and cmd_name not in self.renamed:
            # Whoever asks looks next for names that are like it.
            for name in self.list_commands(ctx):
                self._load(name)
            return None
        if extra := self.extras.get(cmd_name):
            require((extra,), f"`databus {cmd_name}`")
        return self._load(cmd_name)

    def _lacks(self, name: str) -> bool:
        return name in self.extras and bool(lacking(self.extras[name]))

    def _load(self, name: str) -> Any:
        if name not in self.commands:
            new = self.renamed.get(name, name)
            module, _, attribute = self.places[new].partition(":")
            found = getattr(import_module(module), attribute)
            around = typer.Typer(add_completion=False)
            panel = self.panels.get(new)
            if isinstance(found, typer.Typer):
                around.add_typer(found, name=name, rich_help_panel=panel)
            elif new == name:
                around.command(name, rich_help_panel=panel)(found)
            else:
                around.command(name, hidden=True)(old_verb(name, new, found))
            self.commands[name] = _prepared(get_group(around).commands[name], name)
        return self.commands[name]


_LINE_END = re.compile(r"(?<!\n)\n(?!\n)")
"""The end of a line inside a paragraph: help is cut anew to the terminal's width."""


def _prepared(command: Any, verb: str) -> Any:
    """Return the command or group with stdout reserved for its data, and its help in paragraphs of one line.

    Args:
        command: the command.
        verb: its words, by which a server is asked whether it has a route for it.
    """
    command.help = _LINE_END.sub(" ", command.help) if command.help else None
    if isinstance(command, TyperGroup):
        for name, below in command.commands.items():
            _prepared(below, f"{verb} {name}")
    elif command.callback is not None:
        command.callback = stdout_for_data()(command.callback)
        command.invoke = _where_served(command.invoke, verb)
    return command


def _where_served(invoke: Callable[[Any], Any], verb: str) -> Callable[[Any], Any]:
    """Return how a command is begun: refused where a server was chosen that it cannot ask, as its options are."""

    def begun(context: Any) -> Any:
        sources = {name: context.get_parameter_source(name) for name in context.params}
        require_served(verb, [name for name, source in sources.items() if source and source.name == "COMMANDLINE"])
        return invoke(context)

    return begun


def tell_renamed(old: str, new: str) -> None:
    """Name on stderr the verb that replaces an old one."""
    ERR.print(
        f"`databus {old}` is now `databus {new}`; the old name goes with the next version.",
        style="yellow",
        markup=False,
        soft_wrap=True,
    )


def old_verb(old: str, new: str, command: Callable[..., None]) -> Callable[..., None]:
    """Return a command as its old verb runs it."""

    @functools.wraps(command)
    def called(*args: object, **given: object) -> None:
        tell_renamed(old, new)
        command(*args, **given)

    called.__doc__ = f"Former name of `databus {new}`, for one version.\n\n{command.__doc__}"
    return called
