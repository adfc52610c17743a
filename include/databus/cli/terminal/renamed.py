"""Old verbs: they run for one version, and name the new verb on stderr."""

from __future__ import annotations

import functools
from collections.abc import Callable

from databus.cli.terminal.output import ERR


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

    return called
