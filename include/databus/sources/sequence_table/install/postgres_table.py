"""Captured table of PostgreSQL: what triggers do not see, or see in another order, and whether they may write."""

from __future__ import annotations

from collections.abc import Collection, Iterator

import sqlalchemy as sa

from databus.core.errors.source import SequenceTableError
from databus.sources.sequence_table.install.target import InstallTarget
from databus.sources.sequence_table.notes import LogNote

_KIND = sa.text(
    "SELECT c.relkind = 'r', EXISTS (SELECT 1 FROM pg_inherits i WHERE i.inhparent = c.oid) "
    "FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace WHERE n.nspname = :schema AND c.relname = :name"
)
_LOGGED_ELSEWHERE = sa.text(
    "SELECT t.tgrelid::regclass::text FROM pg_trigger t JOIN pg_proc f ON f.oid = t.tgfoid "
    "JOIN pg_namespace n ON n.oid = f.pronamespace JOIN pg_class c ON c.oid = t.tgrelid "
    "JOIN pg_namespace cn ON cn.oid = c.relnamespace "
    "WHERE n.nspname = :function_schema AND f.proname = :function AND (cn.nspname, c.relname) <> (:schema, :name)"
)
_BESIDE = sa.text(
    "SELECT 'trigger', t.tgname::text FROM pg_trigger t JOIN pg_class c ON c.oid = t.tgrelid "
    "JOIN pg_namespace n ON n.oid = c.relnamespace JOIN pg_proc f ON f.oid = t.tgfoid "
    "JOIN pg_language l ON l.oid = f.prolang "
    "WHERE n.nspname = :schema AND c.relname = :name AND NOT t.tgisinternal AND t.tgenabled <> 'D' "
    "AND (t.tgtype::int & 1) = 1 AND l.lanname <> 'internal' "
    "UNION ALL "
    "SELECT 'foreign key', k.conname::text FROM pg_constraint k JOIN pg_class c ON c.oid = k.conrelid "
    "JOIN pg_namespace n ON n.oid = c.relnamespace "
    "WHERE n.nspname = :schema AND c.relname = :name AND k.contype = 'f' AND k.confrelid = k.conrelid "
    "AND (k.confupdtype IN ('c', 'n', 'd') OR k.confdeltype IN ('c', 'n', 'd')) ORDER BY 1, 2"
)
"""Triggers of each row, by users' functions, and foreign keys to the table itself that change its rows."""

_JSON = sa.text(
    "SELECT a.attname::text FROM pg_attribute a JOIN pg_type t ON t.oid = a.atttypid "
    "JOIN pg_class c ON c.oid = a.attrelid JOIN pg_namespace n ON n.oid = c.relnamespace "
    "WHERE n.nspname = :schema AND c.relname = :name AND a.attnum > 0 AND NOT a.attisdropped "
    "AND 'json'::regtype::oid IN (t.oid, t.typelem, t.typbasetype) ORDER BY a.attnum"
)
_RIGHTS = sa.text(
    "WITH o AS (SELECT r.oid, r.rolname, r.rolsuper OR r.rolbypassrls AS beyond FROM pg_roles r WHERE r.oid = COALESCE("
    "(SELECT p.proowner FROM pg_proc p JOIN pg_namespace n ON n.oid = p.pronamespace "
    "WHERE n.nspname = :log_schema AND p.proname = :function AND p.pronargs = 0), "
    "(SELECT m.oid FROM pg_roles m WHERE m.rolname = current_user))), "
    "log AS (SELECT c.oid, c.relowner, c.relnamespace, c.relrowsecurity, c.relforcerowsecurity FROM pg_class c "
    "JOIN pg_namespace n ON n.oid = c.relnamespace WHERE n.nspname = :log_schema AND c.relname = :log), "
    "captured AS (SELECT c.oid, c.relnamespace FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace "
    "WHERE n.nspname = :schema AND c.relname = :name) "
    "SELECT o.rolname::text AS owner, CASE WHEN log.oid IS NULL THEN pg_has_role(o.oid, current_user, 'USAGE') "
    "ELSE has_schema_privilege(o.oid, log.relnamespace, 'USAGE') AND has_table_privilege(o.oid, log.oid, 'INSERT') "
    "END AS writes, log.oid IS NULL OR NOT log.relrowsecurity OR o.beyond "
    "OR (NOT log.relforcerowsecurity AND pg_has_role(o.oid, log.relowner, 'USAGE')) AS unbarred, "
    "NOT EXISTS (SELECT 1 FROM pg_attribute a WHERE a.attrelid = log.oid AND a.attname = 'id' AND a.attidentity = '' "
    "AND NOT COALESCE(has_sequence_privilege(o.oid, "
    "pg_get_serial_sequence(a.attrelid::regclass::text, 'id')::regclass, 'USAGE, UPDATE'), TRUE)) AS numbers, "
    "has_schema_privilege(o.oid, captured.relnamespace, 'USAGE') "
    "AND has_table_privilege(o.oid, captured.oid, 'SELECT') AS reads "
    "FROM o CROSS JOIN captured LEFT JOIN log ON TRUE"
)
"""What the owner of the function may do, or the account where there is none yet; defaults run with these rights too."""


def require_followed(session: sa.Connection, target: InstallTarget, function: str, ours: Collection[str]) -> None:
    """Refuse a table whose changes triggers do not see, or that another log's function serves.

    Args:
        session: the server.
        target: the log.
        function: name of its function.
        ours: names of its triggers.

    Raises:
        SequenceTableError: it is such a table.
    """
    for error in unfollowable(session, target, ours, LogNote().renewed(target.exclude, target.other_triggers)):
        raise error
    schema, name = target.captured
    place = {"function_schema": target.schema, "function": function, "schema": schema, "name": name}
    if other := session.execute(_LOGGED_ELSEWHERE, place).scalar():
        raise SequenceTableError(
            f"{target.conn_id}: {target.name} is the log of {other}", hint="Give another name by --name."
        )


def unfollowable(
    session: sa.Connection, target: InstallTarget, ours: Collection[str], note: LogNote
) -> Iterator[SequenceTableError]:
    """Yield why changes of a table are not seen by its triggers, or in another order than they were made."""
    of = dict(zip(("schema", "name"), target.captured, strict=True))
    is_table, has_children = session.execute(_KIND, of).first() or (False, False)
    if not is_table:
        yield SequenceTableError(
            f"{target.conn_id}: {target.changes_of} is no ordinary table: TRUNCATE of a partition, and what is "
            "attached or detached, fires no trigger of it",
            hint="Name a partition by --table, each with a log of its own.",
        )
    elif has_children:
        yield SequenceTableError(
            f"{target.conn_id}: tables inherit from {target.changes_of}: changes of their rows fire no trigger of it",
            hint="Let them inherit no longer: ALTER TABLE … NO INHERIT; each may have a log of its own.",
        )
    for what, name in session.execute(_BESIDE, of).all():
        if name not in ours and name not in note.other_triggers:
            yield _unordered(target, what, name)
    if note.exclude:
        for (name,) in session.execute(_JSON, of).all():
            if name not in note.exclude:
                yield SequenceTableError(
                    f"{target.conn_id}: {name} of {target.changes_of} is of type json, which is not logged as it is "
                    "where columns are left out",
                    hint=f"ALTER TABLE {target.changes_of} ALTER {name} TYPE jsonb, or --exclude {name} too.",
                )


def require_rights(session: sa.Connection, target: InstallTarget, function: str) -> None:
    """Refuse an installation whose triggers may not do what they do: each write to the table would fail.

    Raises:
        SequenceTableError: a right is missing.
    """
    schema, name = target.captured
    place = {"log_schema": target.schema, "log": target.table, "schema": schema, "name": name}
    found = session.execute(_RIGHTS, place | {"function": function}).first()
    if found is None:
        return
    owner = found.owner
    needs = (
        (
            found.writes,
            f"insert into {target.name}",
            f"GRANT USAGE ON SCHEMA {target.schema} TO {owner}; GRANT INSERT ON {target.name} TO {owner}",
        ),
        (
            found.unbarred,
            f"insert into {target.name} past its row security",
            f"ALTER TABLE {target.name} DISABLE ROW LEVEL SECURITY",
        ),
        (found.numbers, f"take numbers of {target.name}", f"GRANT USAGE ON its sequence TO {owner}"),
        (
            found.reads,
            f"read {target.changes_of}, as at TRUNCATE",
            f"GRANT USAGE ON SCHEMA {schema} TO {owner}; GRANT SELECT ON {target.changes_of} TO {owner}",
        ),
    )
    for may, what, hint in needs:
        if not may:
            raise SequenceTableError(
                f"{target.conn_id}: {owner}, whose rights the triggers have, may not {what}: writes to "
                f"{target.changes_of} would fail",
                hint=f"{hint}. Or give another name by --name.",
            )


def _unordered(target: InstallTarget, what: str, name: str) -> SequenceTableError:
    if what == "trigger":
        hint = "If it never does, nor calls what does, name it"
        more = "A trigger AFTER … FOR EACH STATEMENT keeps the order."
    else:
        hint = "If no statement changes one row both itself and by this key, name it"
        more = "Else make it ON UPDATE RESTRICT ON DELETE RESTRICT."
    return SequenceTableError(
        f"{target.conn_id}: {what} {name} runs while a statement changes rows of {target.changes_of}: where it writes "
        "to that table too, changes are logged in another order than they were made",
        hint=f"{hint}: `databus outbox install {target.conn_id} --table {target.changes_of} --name {target.name} "
        f"--other-trigger {name}`. {more}",
    )
