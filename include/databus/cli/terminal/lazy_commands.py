"""Subcommands that are imported when they are asked for: a command pays for its own imports only."""

from __future__ import annotations

from importlib import import_module
from typing import Any, ClassVar

import typer
from typer.core import TyperGroup
from typer.main import get_group

from databus.cli.terminal.output import stdout_for_data


class LazyCommands(TyperGroup):
    """A group whose commands are names of modules until one is run, or help lists them all."""

    places: ClassVar[dict[str, str]] = {}
    """Command → "module:attribute" of a function or of a `typer.Typer` with commands of its own."""

    def list_commands(self, ctx: Any) -> list[str]:  # noqa: ARG002
        """Return the names in the order in which help shows them."""
        return list(self.places)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:  # noqa: ARG002
        """Return a command, imported now; None when there is none of that name."""
        if cmd_name not in self.places:
            # Whoever asks looks next for names that are like it.
            for name in self.places:
                self._load(name)
            return None
        return self._load(cmd_name)

    def _load(self, name: str) -> Any:
        if name not in self.commands:
            module, _, attribute = self.places[name].partition(":")
            found = getattr(import_module(module), attribute)
            around = typer.Typer(add_completion=False)
            if isinstance(found, typer.Typer):
                around.add_typer(found, name=name)
            else:
                around.command(name)(found)
            self.commands[name] = _data_only(get_group(around).commands[name])
        return self.commands[name]


def _data_only(command: Any) -> Any:
    """Return the command, or the group with all that is below it, with stdout kept for what it prints as data."""
    if isinstance(command, TyperGroup):
        for below in command.commands.values():
            _data_only(below)
    elif command.callback is not None:
        command.callback = stdout_for_data()(command.callback)
    return command
