"""Installs and removes outboxes and the triggers of a table's log: what is to be done is planned first."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import sqlalchemy as sa

from databus.core.connections import Connection
from databus.core.errors.config import ConfigError
from databus.core.errors.source import SourceAccessError, SourceUnavailableError
from databus.sources.sequence_table.database import SqlDatabase
from databus.sources.sequence_table.install import installer_of
from databus.sources.sequence_table.install.forms import kept, run
from databus.sources.sequence_table.install.target import Installer, InstallStage, InstallStep, InstallTarget

LOCK_WAIT_S = 5
"""Time to wait for a table's lock: writers queue behind who waits for it."""

_WAIT = {
    "postgresql": f"SET LOCAL lock_timeout = '{LOCK_WAIT_S}s'",
    "mysql": f"SET SESSION lock_wait_timeout = {LOCK_WAIT_S}",
}
_RIGHTS = {
    "postgresql": "The account needs CREATE on the schema, and to own the captured table.",
    "mysql": "The account needs CREATE, DROP, SELECT, INSERT, TRIGGER and LOCK TABLES on the database; with a binary "
    "log also log_bin_trust_function_creators=ON on the server, or the right SUPER.",
}


def target_of(
    connection: Connection, name: str = "", changes_of: str = "", exclude: Sequence[str] = ()
) -> InstallTarget:
    """Return the outbox or log, under a name by default: `outbox`, or that of the table and `_log`.

    Raises:
        ConfigError: a name is not of the form schema.table, or the connection names no database.
    """
    if not name and changes_of:
        name = f"{changes_of}_log"
    elif not name:
        schema = "public" if connection.conn_type == "postgres" else connection.db_schema
        if not schema:
            raise ConfigError(
                f"connection {connection.conn_id} names no database", hint="Name the outbox: --name DATABASE.outbox."
            )
        name = f"{schema}.outbox"
    return InstallTarget(connection.conn_id, name, changes_of, tuple(exclude))


def install(connection: Connection, target: InstallTarget, *, execute: bool = False) -> tuple[InstallStage, ...]:
    """Return what is there and what is to be done; do it with `execute`.

    Raises:
        ConfigError: a connection of another kind, or a name that is too long.
        SequenceTableError: a table is of another form, or cannot be followed.
        SourceAccessError, SourceUnavailableError: a right is missing; the server is away, or the table is in use.
    """
    with _opened(connection, target, execute=execute) as (session, installer):
        stages = installer.install(session, target)
        return tuple(_done(session, stage, target) for stage in stages) if execute else stages


def remove(
    connection: Connection, target: InstallTarget, *, with_rows: bool = False, execute: bool = False
) -> tuple[InstallStage, ...]:
    """Return what is to be removed; do it with `execute`. A table with rows is kept, without `with_rows`.

    Raises:
        ConfigError: a connection of another kind.
        SequenceTableError: a table or trigger of that name was not made by `install`.
        SourceAccessError, SourceUnavailableError: a right is missing; the server is away, or the table is in use.
    """
    with _opened(connection, target, execute=execute) as (session, installer):
        stages = installer.remove(session, target, with_rows=with_rows)
        return tuple(_done(session, stage, target) for stage in stages) if execute else stages


def _done(session: sa.Connection, stage: InstallStage, target: InstallTarget) -> InstallStage:
    """Run a stage's statements; return it as it was done."""
    if not stage.statements:
        return stage
    before, after = stage.around
    for statement in before:
        run(session, statement)
    is_kept = bool(stage.guard) and bool(run(session, stage.guard).scalar())
    for statement in (*(() if is_kept else stage.statements), *after):
        run(session, statement)
    return InstallStage((kept(target),)) if is_kept else stage


@contextmanager
def _opened(
    connection: Connection, target: InstallTarget, *, execute: bool
) -> Iterator[tuple[sa.Connection, Installer]]:
    database = SqlDatabase(connection, target.changes_of or target.name, kept=False)
    dialect = database.dialect
    installer = installer_of(dialect)
    if installer is None:
        raise ConfigError(
            f"connection {connection.conn_id} is of type {connection.conn_type!r}: what is to be installed there is "
            "not known",
            hint="Name a connection of type postgres or mysql.",
        )
    try:
        # PostgreSQL does all or nothing. MySQL commits at each statement; what was cut off is gone on with.
        with database.session(writes=dialect == "postgresql") as session:
            if execute:
                run(session, _WAIT[dialect])
            yield session, installer
    except SourceAccessError as error:
        raise SourceAccessError(error.message, hint=_RIGHTS[dialect]) from None
    except SourceUnavailableError as error:
        if "lock timeout" not in error.message and "Lock wait timeout" not in error.message:
            raise
        raise SourceUnavailableError(
            error.message,
            hint=f"A transaction holds the table for longer than {LOCK_WAIT_S} seconds. Nothing waits for it now; try "
            "again when it has ended.",
        ) from None
    finally:
        database.close()


def steps_of(stages: Sequence[InstallStage]) -> list[InstallStep]:
    """Return the steps of stages, each with all statements that belong to it, in their order."""
    found: list[InstallStep] = []
    for stage in stages:
        steps = list(stage.steps)
        at = [place for place, step in enumerate(steps) if step.statements]
        if at:
            before, after = stage.around
            for place, more in ((at[0], (before, ())), (at[-1], ((), after))):
                step = steps[place]
                steps[place] = InstallStep(step.what, step.state, (*more[0], *step.statements, *more[1]), step.differs)
        found += steps
    return found
