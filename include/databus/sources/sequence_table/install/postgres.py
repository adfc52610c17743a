"""Installation on PostgreSQL: one function for all triggers of a log, which runs with the rights of its owner."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import sqlalchemy as sa

from databus.core.errors.source import SequenceTableError, SourceSettingError
from databus.core.findings import Finding
from databus.sources.sequence_table.cleaning import MARKS
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

MOST_BYTES = 63
"""Bytes of a name; the server cuts longer ones without a word."""

OLDEST = 13
_HEAD = (
    "id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, txid xid8 NOT NULL DEFAULT pg_current_xact_id(), "
    "created_at timestamptz NOT NULL DEFAULT clock_timestamp(), "
)
_EVENT = "aggregatetype text NOT NULL, aggregateid text NOT NULL, type text NOT NULL, payload jsonb"
_IMAGES = "op text NOT NULL, before json, after json"
_SETTINGS = {"search_path=pg_catalog, pg_temp", "row_security=off"}
_ROWS, _TRUNCATE = 0b11101, 0b100010
"""`pg_trigger.tgtype`: after each row's insert, update or delete; before a statement's TRUNCATE."""

_FUNCTION = sa.text(
    "SELECT p.prosrc, p.prosecdef, p.proconfig FROM pg_proc p JOIN pg_namespace n ON n.oid = p.pronamespace "
    "WHERE n.nspname = :schema AND p.proname = :name AND p.pronargs = 0"
)
_TRIGGERS = sa.text(
    "SELECT t.tgname, t.tgtype::int AS kind, t.tgenabled::text AS enabled, fn.nspname AS function_schema, "
    "f.proname AS function, t.tgqual IS NULL AND t.tgattr::text = '' AS whole "
    "FROM pg_trigger t JOIN pg_class c ON c.oid = t.tgrelid JOIN pg_namespace n ON n.oid = c.relnamespace "
    "JOIN pg_proc f ON f.oid = t.tgfoid JOIN pg_namespace fn ON fn.oid = f.pronamespace "
    "WHERE n.nspname = :schema AND c.relname = :name AND NOT t.tgisinternal"
)
_OTHERS = sa.text(
    "SELECT t.tgrelid::regclass::text FROM pg_trigger t JOIN pg_proc f ON f.oid = t.tgfoid "
    "JOIN pg_namespace n ON n.oid = f.pronamespace JOIN pg_class c ON c.oid = t.tgrelid "
    "JOIN pg_namespace cn ON cn.oid = c.relnamespace "
    "WHERE n.nspname = :function_schema AND f.proname = :function AND (cn.nspname, c.relname) <> (:schema, :name)"
)
_KIND = sa.text(
    "SELECT c.relkind::text FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace "
    "WHERE n.nspname = :schema AND c.relname = :name"
)


class PostgresInstaller:
    """See `Installer`."""

    def install(self, session: sa.Connection, target: InstallTarget) -> tuple[InstallStage, ...]:
        """See `Installer.install`."""
        names = _Names(target)
        version = int(session.execute(sa.text("SHOW server_version_num")).scalar_one()) // 10_000
        if version < OLDEST:
            raise SourceSettingError(
                f"{target.conn_id}: PostgreSQL {version} has no xid8", hint=f"Upgrade it to {OLDEST} or later."
            )
        steps = [self._table(session, target, names)]
        if target.changes_of:
            self._require_followed(session, target, names)
            steps += [self._function(session, target, names), *self._triggers(session, target, names)]
        return (InstallStage(tuple(steps)),)

    def remove(self, session: sa.Connection, target: InstallTarget, *, with_rows: bool) -> tuple[InstallStage, ...]:
        """See `Installer.remove`."""
        names = _Names(target)
        steps = []
        if target.changes_of:
            there = self._found(session, target, names)
            for name, what in names.triggers:
                drop = (f"DROP TRIGGER {quoted(name)} ON {names.captured}",) if name in there else ()
                steps.append(InstallStep(what, "there" if drop else "missing", drop))
            function = session.execute(_FUNCTION, names.of_function).first()
            drop = (f"DROP FUNCTION {names.function}()",) if function else ()
            steps.append(InstallStep(names.says, "there" if drop else "missing", drop))
        triggers, table = InstallStage(tuple(steps)), f"table {target.name}"
        if not own_table(session, target):
            return triggers, InstallStage((InstallStep(table, "missing"),))
        guard = "" if with_rows else has_rows(names.table)
        if guard and run(session, guard).scalar():
            return triggers, InstallStage((kept(target),))
        drops = [f"DROP TABLE {names.table}"]
        if sa.inspect(session).has_table(MARKS, schema=target.schema):
            drops.append(unmarks(f"{quoted(target.schema)}.{MARKS}", literal(target.name)))
        lock = (f"LOCK TABLE {names.table} IN ACCESS EXCLUSIVE MODE",)
        return triggers, InstallStage((InstallStep(table, "there", tuple(drops)),), (lock, ()), guard)

    def findings(
        self, session: sa.Connection, target: InstallTarget, columns: Iterable[str], subject: str
    ) -> Iterator[Finding]:
        """See `Installer.findings`."""
        del columns  # an image has all that the table has
        names, there = _Names(target), _triggers(session, target)
        for name, what in names.triggers:
            if not any(self._writes(row, name, names) for row in there):
                yield incomplete(target, what, subject)

    def _table(self, session: sa.Connection, target: InstallTarget, names: _Names) -> InstallStep:
        what = f"table {target.name}"
        if own_table(session, target):
            return InstallStep(what, "there")
        columns = _HEAD + (_IMAGES if target.changes_of else _EVENT)
        return InstallStep(
            what, "missing", (f"CREATE TABLE {names.table} ({columns})", f"CREATE INDEX ON {names.table} (txid)")
        )

    def _function(self, session: sa.Connection, target: InstallTarget, names: _Names) -> InstallStep:
        body = _body(target, names)
        found = session.execute(_FUNCTION, names.of_function).first()
        if found is not None and (found[0], bool(found[1]), set(found[2] or ())) == (body, True, _SETTINGS):
            return InstallStep(names.says, "there")
        tag = "databus"
        while f"${tag}$" in body:
            tag += "_"
        create = (
            f"CREATE OR REPLACE FUNCTION {names.function}() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER "
            f"SET search_path = pg_catalog, pg_temp SET row_security = off AS ${tag}${body}${tag}$"
        )
        statements = (create, f"REVOKE ALL ON FUNCTION {names.function}() FROM PUBLIC")
        if found is None:
            return InstallStep(names.says, "missing", statements)
        if f"INSERT INTO {names.table} " not in found[0]:
            raise foreign(target, names.says)
        return InstallStep(names.says, "differs", statements, "another text, or other settings")

    def _triggers(self, session: sa.Connection, target: InstallTarget, names: _Names) -> Iterator[InstallStep]:
        there = self._found(session, target, names)
        for name, what in names.triggers:
            when = (
                "AFTER INSERT OR UPDATE OR DELETE ON {} FOR EACH ROW"
                if name == names.rows
                else "BEFORE TRUNCATE ON {} FOR EACH STATEMENT"
            ).format(names.captured)
            # ALWAYS: also for rows that replication, or a session as a replica, brings.
            statements = (
                f"CREATE TRIGGER {quoted(name)} {when} EXECUTE FUNCTION {names.function}()",
                f"ALTER TABLE {names.captured} ENABLE ALWAYS TRIGGER {quoted(name)}",
            )
            if name not in there:
                yield InstallStep(what, "missing", statements)
            elif self._writes(there[name], name, names):
                yield InstallStep(what, "there")
            else:
                drop = f"DROP TRIGGER {quoted(name)} ON {names.captured}"
                yield InstallStep(what, "differs", (drop, *statements), "disabled, or for other changes")

    def _found(self, session: sa.Connection, target: InstallTarget, names: _Names) -> dict[str, Any]:
        """Return the triggers of our names on the captured table.

        Raises:
            SequenceTableError: one of them calls another function, or ours serves another table.
        """
        wanted = dict(names.triggers)
        found = {row.tgname: row for row in _triggers(session, target) if row.tgname in wanted}
        for name, row in found.items():
            if (row.function_schema, row.function) != (target.schema, names.name_of_function):
                raise foreign(target, f"{wanted[name]} on {target.changes_of}")
        return found

    def _writes(self, row: Any, name: str, names: _Names) -> bool:
        kind = _ROWS if name == names.rows else _TRUNCATE
        writes: bool = (row.tgname, row.kind, row.enabled, row.whole) == (name, kind, "A", True)
        return writes and row.function == names.name_of_function

    def _require_followed(self, session: sa.Connection, target: InstallTarget, names: _Names) -> None:
        """Refuse a table whose changes triggers do not see."""
        captured_columns(session, target)
        schema, name = target.captured
        if session.execute(_KIND, {"schema": schema, "name": name}).scalar() != "r":
            raise SequenceTableError(
                f"{target.conn_id}: {target.changes_of} is no ordinary table: TRUNCATE of a partition, and what is "
                "attached or detached, fires no trigger of it",
                hint="Name a partition by --table, each with a log of its own.",
            )
        if other := session.execute(
            _OTHERS,
            {
                "function_schema": target.schema, "function": names.name_of_function, "schema": schema, "name": name,
            },
        ).scalar():  # fmt: skip
            raise SequenceTableError(
                f"{target.conn_id}: {target.name} is the log of {other}", hint="Give another name by --name."
            )


class _Names:
    """Names of one target's objects, quoted where they stand in statements."""

    def __init__(self, target: InstallTarget):
        self.table = ".".join(map(quoted, (target.schema, target.table)))
        self.captured = ".".join(map(quoted, target.captured))
        self.name_of_function = f"{target.table}_write"
        self.function = ".".join(map(quoted, (target.schema, self.name_of_function)))
        self.says = f"function {target.schema}.{self.name_of_function}"
        self.of_function = {"schema": target.schema, "name": self.name_of_function}
        self.rows = f"{target.table}_rows"
        self.triggers = [(name, f"trigger {name}") for name in (self.rows, f"{target.table}_truncate")]
        longest = self.triggers[-1][0] if target.changes_of else target.table
        for name in (longest, target.schema):
            target.require_short(name, len(name.encode()), MOST_BYTES)


def quoted(name: str) -> str:
    """Return a name as an identifier."""
    doubled = name.replace('"', '""')
    return f'"{doubled}"'


def literal(text: str) -> str:
    """Return a text as a literal, whatever `standard_conforming_strings` says."""
    doubled = text.replace("'", "''")
    return f"'{doubled}'" if "\\" not in text else "E'" + doubled.replace("\\", "\\\\") + "'"


def _triggers(session: sa.Connection, target: InstallTarget) -> list[Any]:
    schema, name = target.captured
    return list(session.execute(_TRIGGERS, {"schema": schema, "name": name}).all())


def _body(target: InstallTarget, names: _Names) -> str:
    """Return the function's text. TRUNCATE is written as deletes: of what a statement sees once the table is locked."""
    said = literal(
        f"TRUNCATE of {target.changes_of} is logged in {target.name} as deletes, which READ COMMITTED alone sees all of"
    )

    def image(row: str) -> str:
        if not target.exclude:
            return f"row_to_json({row})"
        return f"(to_jsonb({row}) - ARRAY[{', '.join(map(literal, target.exclude))}])::json"

    return f"""
BEGIN
  IF TG_OP = 'TRUNCATE' THEN
    IF current_setting('transaction_isolation') <> 'read committed' THEN
      RAISE EXCEPTION USING MESSAGE = {said};
    END IF;
    INSERT INTO {names.table} (op, before) SELECT 'd', {image("t.*")} FROM {names.captured} t;
  ELSIF TG_OP = 'INSERT' THEN
    INSERT INTO {names.table} (op, after) VALUES ('c', {image("NEW")});
  ELSIF TG_OP = 'UPDATE' THEN
    INSERT INTO {names.table} (op, before, after) VALUES ('u', {image("OLD")}, {image("NEW")});
  ELSE
    INSERT INTO {names.table} (op, before) VALUES ('d', {image("OLD")});
  END IF;
  RETURN NULL;
END
"""  # noqa: S608 - names are quoted
