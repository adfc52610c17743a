"""Installation on MySQL: a trigger for each operation, which runs with the rights of who made it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import sqlalchemy as sa

from databus.core.errors.root import DatabusError
from databus.core.errors.source import SequenceTableError, SourceSettingError
from databus.core.findings import Finding, Level
from databus.sources.sequence_table.captured import AFTER, BEFORE
from databus.sources.sequence_table.cleaning import MARKS
from databus.sources.sequence_table.columns import kind_of
from databus.sources.sequence_table.install.forms import (
    captured_columns,
    foreign,
    has_rows,
    incomplete,
    kept,
    own_table,
    run,
    unmarks,
)
from databus.sources.sequence_table.install.target import InstallStage, InstallStep, InstallTarget

MOST_CHARACTERS = 64
"""Characters of a name."""

_HEAD = "`id` bigint AUTO_INCREMENT PRIMARY KEY, `created_at` datetime(6) NOT NULL DEFAULT (UTC_TIMESTAMP(6)), "
"""UTC: CURRENT_TIMESTAMP would be of the zone of the session that writes."""

_EVENT = (
    "`aggregatetype` varchar(255) NOT NULL, `aggregateid` varchar(255) NOT NULL, `type` varchar(255) NOT NULL, "
    "`payload` json"
)
_IMAGES = f"`op` char(1) NOT NULL, `{BEFORE}` json, `{AFTER}` json"
_OPERATIONS = {"insert": ("c", None, "NEW"), "update": ("u", "OLD", "NEW"), "delete": ("d", "OLD", None)}

_TRIGGERS = sa.text(
    "SELECT trigger_name AS name, event_manipulation AS event, action_timing AS timing, action_statement AS body, "
    "event_object_table AS of_table FROM information_schema.triggers WHERE trigger_schema = :schema"
)
_CASCADES = sa.text(
    "SELECT constraint_name, referenced_table_name FROM information_schema.referential_constraints "
    "WHERE constraint_schema = :schema AND table_name = :name "
    "AND (update_rule IN ('CASCADE', 'SET NULL') OR delete_rule IN ('CASCADE', 'SET NULL'))"
)
_ENGINE = sa.text("SELECT engine FROM information_schema.tables WHERE table_schema = :schema AND table_name = :name")


class MysqlInstaller:
    """See `Installer`."""

    def install(self, session: sa.Connection, target: InstallTarget) -> tuple[InstallStage, ...]:
        """See `Installer.install`."""
        _require_names(target)
        if bool(getattr(session.dialect, "is_mariadb", False)):
            raise SourceSettingError(
                f"{target.conn_id}: installing on MariaDB was not tried", hint="Make table and triggers by hand."
            )
        made = InstallStage((self._table(session, target),))
        if not target.changes_of:
            return (made,)
        columns = captured_columns(session, target)
        for name in columns:
            _require_plain(target, name)
        for error in (*_of_engine(session, target), *_of_cascades(session, target)):
            raise error
        there = _found(session, target)
        steps = (self._trigger(session, target, name, columns, there.get(name)) for name in _OPERATIONS)
        return made, InstallStage(tuple(steps), _locked(target.changes_of))  # between two triggers nobody writes

    def remove(self, session: sa.Connection, target: InstallTarget, *, with_rows: bool) -> tuple[InstallStage, ...]:
        """See `Installer.remove`."""
        _require_names(target)
        steps = []
        if target.changes_of:
            there = _found(session, target)
            for name in _OPERATIONS:
                drop = (f"DROP TRIGGER {_trigger(target, name)}",) if name in there else ()
                steps.append(InstallStep(_says(target, name), "there" if drop else "missing", drop))
        triggers, table = InstallStage(tuple(steps), _locked(target.changes_of)), f"table {target.name}"
        if not own_table(session, target):
            return triggers, InstallStage((InstallStep(table, "missing"),))
        guard = "" if with_rows else has_rows(_table(target.name))
        if guard and run(session, guard).scalar():
            return triggers, InstallStage((kept(target),))
        drops, locked = [f"DROP TABLE {_table(target.name)}"], [target.name]
        if sa.inspect(session).has_table(MARKS, schema=target.schema):
            marks = f"{target.schema}.{MARKS}"
            drops.append(unmarks(_table(marks), literal(target.name)))
            locked.append(marks)
        return triggers, InstallStage((InstallStep(table, "there", tuple(drops)),), _locked(*locked), guard)

    def findings(
        self, session: sa.Connection, target: InstallTarget, columns: Iterable[str], subject: str
    ) -> Iterator[Finding]:
        """See `Installer.findings`. Triggers show to accounts with the right TRIGGER alone."""
        for error in _of_cascades(session, target):
            yield Finding.of(subject, error)
        there = _found(session, target)
        if not there:
            yield Finding(
                f"{subject}: triggers", Level.WARN, f"none of {target.changes_of} is seen: they are not looked at",
                f"GRANT TRIGGER ON {target.changes_of} to the account; where there is none, run `databus outbox "
                f"install {target.conn_id} --table {target.changes_of} --name {target.name}`.", SequenceTableError.code,
            )  # fmt: skip
            return
        for name in _OPERATIONS:
            if name not in there or any(quoted(column) not in there[name].body for column in columns):
                yield incomplete(target, _says(target, name), subject)

    def _table(self, session: sa.Connection, target: InstallTarget) -> InstallStep:
        what = f"table {target.name}"
        if own_table(session, target):
            for error in _of_engine(session, target, own=True):
                raise error
            return InstallStep(what, "there")
        columns = _HEAD + (_IMAGES if target.changes_of else _EVENT)
        return InstallStep(what, "missing", (f"CREATE TABLE {_table(target.name)} ({columns}) ENGINE=InnoDB",))

    def _trigger(
        self,
        session: sa.Connection,
        target: InstallTarget,
        name: str,
        columns: Mapping[str, Mapping[str, Any]],
        there: Any,
    ) -> InstallStep:
        op, before, after = _OPERATIONS[name]
        images = [_image(session, target, columns, row) if row else "NULL" for row in (before, after)]
        body = f"{_inserts(target)} (`op`, `{BEFORE}`, `{AFTER}`) VALUES ('{op}', {', '.join(images)})"
        create = (
            f"CREATE TRIGGER {_trigger(target, name)} AFTER {name.upper()} ON {_table(target.changes_of)} "
            f"FOR EACH ROW {body}"
        )
        if there is None:
            return InstallStep(_says(target, name), "missing", (create,))
        if (there.event, there.timing, there.body) == (name.upper(), "AFTER", body):
            return InstallStep(_says(target, name), "there")
        drop = f"DROP TRIGGER {_trigger(target, name)}"
        return InstallStep(
            _says(target, name), "differs", (drop, create), "another text: other columns, or an older form"
        )


def quoted(name: str) -> str:
    """Return a name as an identifier."""
    doubled = name.replace("`", "``")
    return f"`{doubled}`"


def literal(text: str) -> str:
    """Return a text as a literal, whatever `sql_mode` says of backslashes."""
    if text.isascii() and "'" not in text and "\\" not in text:
        return f"'{text}'"
    return f"CONVERT(0x{text.encode().hex()} USING utf8mb4)"


def _image(session: sa.Connection, target: InstallTarget, columns: Mapping[str, Mapping[str, Any]], row: str) -> str:
    members = (f"{literal(name)}, {_value(session, target, column, row)}" for name, column in columns.items())
    return f"JSON_OBJECT({', '.join(members)})"


def _value(session: sa.Connection, target: InstallTarget, column: Mapping[str, Any], row: str) -> str:
    """Return the expression of a value: times with a zone as seconds since 1970, since a text has the writer's zone."""
    value = f"{row}.{quoted(column['name'])}"
    if isinstance(column["type"], sa.TIMESTAMP):
        return f"UNIX_TIMESTAMP({value})"
    _, as_text = kind_of(target.conn_id, target.changes_of, column, session.dialect.name)
    return f"CAST({value} AS CHAR)" if as_text else value


def _found(session: sa.Connection, target: InstallTarget) -> dict[str, Any]:
    """Return the triggers that are there, by operation.

    Raises:
        SequenceTableError: one of our names is of another table, or writes elsewhere.
    """
    schema, table = target.captured
    names = {f"{target.table}_{name}": name for name in _OPERATIONS}
    found = {}
    for row in session.execute(_TRIGGERS, {"schema": schema}).all():
        if row.name in names:
            if row.of_table != table or not row.body.startswith(_inserts(target)):
                raise foreign(target, f"trigger {schema}.{row.name} on {row.of_table}")
            found[names[row.name]] = row
    return found


def _of_engine(session: sa.Connection, target: InstallTarget, *, own: bool = False) -> Iterator[DatabusError]:
    schema, name = (target.schema, target.table) if own else target.captured
    engine = session.execute(_ENGINE, {"schema": schema, "name": name}).scalar()
    if str(engine).lower() != "innodb":
        yield SequenceTableError(
            f"{target.conn_id}: table {schema}.{name} is of engine {engine}, which has no transactions: a change that "
            "is rolled back would stand in one of table and log",
            hint=f"ALTER TABLE {_table(f'{schema}.{name}')} ENGINE=InnoDB",
        )


def _of_cascades(session: sa.Connection, target: InstallTarget) -> Iterator[DatabusError]:
    schema, table = target.captured
    found = session.execute(_CASCADES, {"schema": schema, "name": table}).first()
    if found is not None:
        yield SequenceTableError(
            f"{target.conn_id}: foreign key {found[0]} of {target.changes_of} changes its rows with those of "
            f"{found[1]}, and fires no trigger: the log would lack these changes",
            hint="Let it be ON UPDATE RESTRICT ON DELETE RESTRICT, and change the rows in the program.",
        )


def _require_names(target: InstallTarget) -> None:
    longest = f"{target.table}_insert" if target.changes_of else target.table
    for name in (longest, target.schema):
        target.require_short(name, len(name), MOST_CHARACTERS)
    for name in (target.name, target.changes_of):
        _require_plain(target, name)


def _require_plain(target: InstallTarget, name: str) -> None:
    """Refuse a name with a backtick: the server does not give the text of such a trigger back as it was."""
    if "`" in name:
        raise SequenceTableError(
            f"{target.conn_id}: the name {name} has a backtick: triggers with it cannot be compared",
            hint="Rename it, or make table and triggers by hand.",
        )


def _inserts(target: InstallTarget) -> str:
    return f"INSERT INTO {_table(target.name)}"


def _locked(*names: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
    return (f"LOCK TABLES {', '.join(f'{_table(name)} WRITE' for name in names)}",), ("UNLOCK TABLES",)


def _table(name: str) -> str:
    return ".".join(map(quoted, name.split(".")))


def _trigger(target: InstallTarget, name: str) -> str:
    return f"{quoted(target.captured[0])}.{quoted(f'{target.table}_{name}')}"


def _says(target: InstallTarget, name: str) -> str:
    return f"trigger {target.captured[0]}.{target.table}_{name}"
