"""Target of an installation, and the stages of what is to be done for it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Literal, Protocol

import sqlalchemy as sa

from databus.core.errors.config import ConfigError
from databus.core.findings import Finding

State = Literal["there", "missing", "differs", "kept"]

EVENT_COLUMNS = ("aggregatetype", "aggregateid", "type", "payload")
"""Columns of an event in an outbox, under the names that Debezium's outbox event router has by default."""

_NAME = re.compile(r"[^.\0]+\.[^.\0]+")


@dataclass(frozen=True)
class InstallTarget:
    """An outbox, or the log of a table's changes.

    Attributes:
        conn_id: id of the connection.
        name: `schema.table` of the outbox or log.
        changes_of: `schema.table` whose changes are logged; "" for an outbox.
        exclude: columns of that table that are not logged.
    """

    conn_id: str
    name: str
    changes_of: str = ""
    exclude: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        for name in filter(None, (self.name, self.changes_of)):
            if not _NAME.fullmatch(name):
                raise ConfigError(
                    f"table {name!r} is not of the form schema.table", hint="Name it so, e.g. public.orders."
                )
        if self.name == self.changes_of:
            raise ConfigError(f"{self.name} cannot be its own log", hint="Give the log another name by --name.")
        if self.exclude and not self.changes_of:
            raise ConfigError("--exclude is of a table's log", hint="Name the table by --table.")

    @property
    def schema(self) -> str:
        """Schema of the outbox or log."""
        return self.name.partition(".")[0]

    @property
    def table(self) -> str:
        """Name of the outbox or log without its schema."""
        return self.name.partition(".")[2]

    @property
    def captured(self) -> tuple[str, str]:
        """Schema and name of the captured table."""
        schema, _, name = self.changes_of.partition(".")
        return schema, name

    def require_short(self, longest: str, size: int, most: int) -> None:
        """Refuse a name that the server does not take, or cuts.

        Raises:
            ConfigError: it is too long.
        """
        if size > most:
            raise ConfigError(
                f"the name {longest} is longer than the {most} that the server takes", hint="Give a shorter --name."
            )


@dataclass(frozen=True)
class InstallStep:
    """One object of an installation.

    Attributes:
        what: kind and name, e.g. "trigger shop.orders_log_insert".
        state: "there", "missing", "differs", or "kept" of a table that has rows and is not removed.
        statements: what makes it as it is to be, or removes it; empty where nothing is to be done.
        differs: how it differs, or why it is kept.
    """

    what: str
    state: State
    statements: tuple[str, ...] = ()
    differs: str = ""

    def to_json(self) -> dict[str, Any]:
        """Return plain JSON."""
        return {"what": self.what, "state": self.state, "differs": self.differs, "statements": list(self.statements)}


@dataclass(frozen=True)
class InstallStage:
    """Steps that belong together.

    Attributes:
        steps: the objects, in the order of their statements.
        around: statements before and after all of them, which keep writers away meanwhile.
        guard: query behind the first of these; where it gives true, the steps are not done, and their objects kept.
    """

    steps: tuple[InstallStep, ...]
    around: tuple[tuple[str, ...], tuple[str, ...]] = ((), ())
    guard: str = ""

    @property
    def statements(self) -> tuple[str, ...]:
        """Statements of the steps in their order; empty where nothing is to be done."""
        return tuple(statement for step in self.steps for statement in step.statements)


class Installer(Protocol):
    """Statements of one kind of server."""

    def install(self, session: sa.Connection, target: InstallTarget) -> tuple[InstallStage, ...]:
        """Return what is there and what is to be done; changes nothing.

        Raises:
            SequenceTableError: a table is of another form, or a captured one cannot be followed.
            SourceSettingError: the server cannot do it.
            ConfigError: a name is too long.
        """
        ...

    def remove(self, session: sa.Connection, target: InstallTarget, *, with_rows: bool) -> tuple[InstallStage, ...]:
        """Return how to remove the triggers, and to drop the table after that; changes nothing.

        Raises:
            SequenceTableError: the table or a trigger is of another form: it was not made by an installation.
        """
        ...

    def findings(
        self, session: sa.Connection, target: InstallTarget, columns: Iterable[str], subject: str
    ) -> Iterator[Finding]:
        """Yield why changes of the captured table may be missing in its log.

        Args:
            session: connection of the account that reads.
            target: the log.
            columns: columns of the captured table that are delivered.
            subject: of the findings.
        """
        ...
