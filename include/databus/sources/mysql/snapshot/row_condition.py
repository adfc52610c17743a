"""Row conditions that users give a snapshot: SQL that can be nothing but a condition, checked by the server too."""

from __future__ import annotations

import re

from databus.binlog.schema_history.definition import TableDefinition
from databus.core.errors.config import SnapshotConditionError
from databus.core.errors.source import SourceAccessError, SourceError, SourceUnavailableError
from databus.sources.mysql.snapshot.chunk_key import Query
from databus.sources.mysql.snapshot.cursor import quoted

_PARTS = r"""`(?:[^`]|``)*` | '(?:[^'%s]|''%s)*' | "(?:[^"%s]|""%s)*"
    | (?P<refused> -- | \# | /\* | \*/ | := | [;?`'"\\\0] | (?<![\w$@])(?:
        INTO | LOCK | FOR\s+(?:UPDATE | SHARE) )(?![\w$]) )
    | (?P<open> \( ) | (?P<close> \) ) | [\w$@]+ | ."""
_ESCAPED, _PLAIN = (r"\\", r"|\\."), ("", "")
_READINGS = [
    re.compile(_PARTS % (*single, *double), re.VERBOSE | re.DOTALL | re.IGNORECASE)
    for single, double in ((_ESCAPED, _ESCAPED), (_ESCAPED, _PLAIN), (_PLAIN, _PLAIN))
]
"""Parts of an expression under the SQL modes that read a backslash otherwise: it must be a condition under each."""

_MISSING_TABLE = ("(MySQL error 1146)", "(MySQL error 1412)")


def row_condition(definition: TableDefinition, where: str) -> str:
    """Return a condition that a user gave in parentheses that it cannot leave; "" for none.

    Raises:
        SnapshotConditionError: it holds `;`, a comment, an open quote or parenthesis, a `?`, or would write or lock.
    """
    where = where.strip()
    if fault := condition_fault(where):
        raise _refused(definition, where, fault)
    return f"({where})" if where else ""


def condition_fault(where: str) -> str:
    """Return why a text is no condition that can stand in parentheses; "" where nothing is wrong with it."""
    return next((fault for reading in _READINGS if (fault := _fault(reading, where.strip()))), "")


def checked_condition(query: Query, definition: TableDefinition, where: str) -> str:
    """Return what `row_condition` does once the server has prepared it; it is not run.

    Raises:
        SnapshotConditionError: it is refused here, or by the server: its syntax, a column, a function.
        SourceError: the account may not read the table, or the table is gone.
    """
    condition = row_condition(definition, where)
    if not condition:
        return ""
    place = f"{quoted(definition.database)}.{quoted(definition.table)}"
    asked = f"SELECT 1 FROM {place} WHERE {condition}"  # noqa: S608 - this checks it
    try:
        query(f"SET @databus_condition = _utf8mb4 X'{asked.encode().hex()}'")
        query("PREPARE databus_condition FROM @databus_condition")
        query("DEALLOCATE PREPARE databus_condition")
    except (SourceUnavailableError, SourceAccessError):
        raise
    except SourceError as error:
        if any(number in error.message for number in _MISSING_TABLE):
            raise
        raise _refused(definition, where.strip(), f"the server says: {error.message}") from None
    return condition


def _fault(reading: re.Pattern[str], where: str) -> str:
    depth = 0
    for part in reading.finditer(where):
        if part["refused"]:
            quote = part["refused"] in "'\"`"
            return f"{'the quote' if quote else 'it holds'} {part['refused']!r} at character {part.start() + 1}" + (
                " is not closed" if quote else ""
            )
        depth += bool(part["open"]) - bool(part["close"])
        if depth < 0:
            return f"character {part.start() + 1} closes a parenthesis that it has not opened"
    return "a parenthesis is not closed" if depth else ""


def _refused(definition: TableDefinition, where: str, fault: str) -> SnapshotConditionError:
    return SnapshotConditionError(
        f"{definition.name}: the snapshot's condition {where!r} is refused: {fault}",
        hint="Give one condition on the table's columns as it stands behind WHERE, e.g. id > 100 AND state = 'open': "
        "no comment, no `;`, a quote inside a text written twice.",
    )
