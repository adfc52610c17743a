"""Forms of tables: whether one that is there can be the outbox or log, and what of a captured table can be logged."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import Any

import sqlalchemy as sa

from databus.core.errors.source import SequenceTableError
from databus.core.findings import Finding
from databus.sources.sequence_table.captured import AFTER, BEFORE
from databus.sources.sequence_table.columns import kind_of, reflected
from databus.sources.sequence_table.install.target import EVENT_COLUMNS, InstallStep, InstallTarget
from databus.sources.sequence_table.spec import SequenceTable


def own_table(session: sa.Connection, target: InstallTarget) -> bool:
    """Return whether the outbox or log is there.

    Raises:
        SequenceTableError: a table of this name is there, and of another form.
    """
    if not sa.inspect(session).has_table(target.table, schema=target.schema):
        return False
    what = f"the log of {target.changes_of}" if target.changes_of else "an outbox"
    found = _columns(session, target.schema, target.table)
    wanted = ("op", BEFORE, AFTER) if target.changes_of else EVENT_COLUMNS
    if absent := [name for name in wanted if name not in found]:
        raise _unfit(
            target, f"is there and is not {what}: it has no column {', '.join(absent)}",
            "Give another name by --name" + ("." if target.changes_of else ", or the table that it logs by --table."),
        )  # fmt: skip
    _, lacking = reflected(session, SequenceTable(conn_id=target.conn_id, table=target.name))
    if lacking:
        raise SequenceTableError(
            f"{target.conn_id}: table {target.name} is there and lacks what {what} needs: "
            f"{'; '.join(error.message.partition(f'table {target.name} ')[2] for error in lacking)}",
            hint=f"{lacking[0].hint} Or give another name by --name.",
        )
    if target.changes_of:
        _require_writable(target, found)
    return True


def captured_columns(session: sa.Connection, target: InstallTarget) -> dict[str, Mapping[str, Any]]:
    """Return the columns of the captured table that are logged, by name.

    Raises:
        SequenceTableError: the table is not there, has no primary key, or a column that cannot be logged.
    """
    schema, name = target.captured
    inspector = sa.inspect(session)
    if not inspector.has_table(name, schema=schema):
        raise SequenceTableError(
            f"{target.conn_id}: there is no table {target.changes_of}, or the account may not see it",
            hint=f"Correct --table, or GRANT SELECT, TRIGGER ON {target.changes_of} to the account.",
        )
    found = _columns(session, schema, name)
    key = inspector.get_pk_constraint(name, schema)["constrained_columns"]
    if not key:
        raise SequenceTableError(
            f"{target.conn_id}: table {target.changes_of} has no primary key: which row an update or delete means is "
            "not known",
            hint="Give it one: ALTER TABLE … ADD PRIMARY KEY (…).",
        )
    for each in target.exclude:
        if each not in found or each in key:
            what = "is of its key" if each in key else "is none of its columns"
            raise SequenceTableError(
                f"{target.conn_id}: {each} cannot be left out of the log of {target.changes_of}: it {what}",
                hint="Correct --exclude.",
            )
    logged = {each: column for each, column in found.items() if each not in target.exclude}
    for each, column in logged.items():
        try:
            kind_of(target.conn_id, target.changes_of, column, session.dialect.name)
        except SequenceTableError as error:
            raise SequenceTableError(
                error.message,
                hint=f"Leave it out: --exclude {each}, and name the other columns in the source's `columns`.",
            ) from None
    return logged


def run(session: sa.Connection, statement: str) -> sa.CursorResult[Any]:
    """Run a statement as it is: a percent sign in a name is one."""
    return session.exec_driver_sql(statement, execution_options={"no_parameters": True})


def has_rows(table: str) -> str:
    """Return the query whether a table, a quoted name, has rows."""
    return f"SELECT EXISTS (SELECT 1 FROM {table})"  # noqa: S608 - quoted by who names it


def unmarks(marks: str, name: str) -> str:
    """Return the statement that forgets up to where a table was cleaned; both are quoted."""
    return f"DELETE FROM {marks} WHERE log_table = {name}"  # noqa: S608 - quoted by who names it


def kept(target: InstallTarget) -> InstallStep:
    """Return the step of a table that has rows and stays."""
    return InstallStep(
        f"table {target.name}", "kept", (), "it has rows, which a flow may still have to read; --with-rows drops it"
    )


def incomplete(target: InstallTarget, what: str, subject: str) -> Finding:
    """Return the finding of a trigger that does not write all changes."""
    error = SequenceTableError(
        f"{target.conn_id}: {what} does not write each change of {target.changes_of} to {target.name}",
        hint=f"Run `databus outbox install {target.conn_id} --table {target.changes_of} --name {target.name}`: it says "
        "what differs.",
    )
    return Finding.of(subject, error)


def foreign(target: InstallTarget, what: str) -> SequenceTableError:
    """Return the error of an object that has the name of one of ours and is none."""
    return SequenceTableError(
        f"{target.conn_id}: {what} is there and was not made for {target.name}",
        hint="Give another name by --name, or remove it by hand.",
    )


def _columns(session: sa.Connection, schema: str, name: str) -> dict[str, Mapping[str, Any]]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", sa.exc.SAWarning)  # types that SQLAlchemy does not know are judged by `kind_of`
        return {column["name"]: column for column in sa.inspect(session).get_columns(name, schema)}


def _require_writable(target: InstallTarget, found: Mapping[str, Mapping[str, Any]]) -> None:
    """Refuse a log that a trigger cannot write to: each write to the captured table would fail."""
    for name in (BEFORE, AFTER):
        if not isinstance(found[name]["type"], sa.JSON) or not found[name]["nullable"]:
            raise _unfit(target, f"has a column {name} that is no JSON, or not NULL", "Give another name by --name.")
    for name, column in found.items():
        given = column.get("default") is not None or column.get("identity") or column.get("computed")
        if name in ("op", BEFORE, AFTER) or column["nullable"] or given or column.get("autoincrement") is True:
            continue
        raise _unfit(
            target, f"has a column {name} that is not NULL and has no default: triggers do not know it",
            "Give it a default, or give another name by --name.",
        )  # fmt: skip


def _unfit(target: InstallTarget, what: str, hint: str) -> SequenceTableError:
    return SequenceTableError(f"{target.conn_id}: table {target.name} {what}", hint=hint)
