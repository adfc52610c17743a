"""Table visibility by an account's grants: what it does not show may not be missing."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from databus.binlog.log.capture import REGEX_PREFIX, TableCapture

_QUOTED = r"(?:`(?:[^`]|``)*`|\"(?:[^\"]|\"\")*\")"
_GRANT = re.compile(rf"(GRANT|REVOKE) (.+?) ON ((?:\*|{_QUOTED})\.(?:\*|{_QUOTED})) (?:TO|FROM) ", re.DOTALL)
_SCOPE = re.compile(rf"(\*|{_QUOTED})\.(\*|{_QUOTED})")
_PRIVILEGE = re.compile(r"([A-Z][A-Z_ ]*[A-Z])\s*(\([^)]*\))?")

_OF_TABLES = frozenset(
    [
        *("ALL PRIVILEGES", "SELECT", "INSERT", "UPDATE", "DELETE", "CREATE", "DROP", "REFERENCES", "INDEX", "ALTER"),
        *("CREATE VIEW", "SHOW VIEW", "TRIGGER", "DELETE HISTORY"),
    ]
)
"""Privileges that show a table (MySQL manual, "INFORMATION_SCHEMA: Privileges")."""


@dataclass
class MysqlSight:
    """MySQL grants on whole tables; of roles only what SHOW GRANTS says.

    Attributes:
        everything: on all tables.
        databases: on all tables of databases, by their names as granted: `_` and `%` stand for others.
        tables: on single tables, as (database, table).
        hidden: databases of which privileges were taken back.
    """

    everything: bool = False
    databases: list[str] = field(default_factory=list)
    tables: set[tuple[str, str]] = field(default_factory=set)
    hidden: list[str] = field(default_factory=list)

    @classmethod
    def of(cls, grants: Iterable[tuple[Any, ...]]) -> MysqlSight:
        """Read the rows of SHOW GRANTS."""
        sight = cls()
        for (text,) in grants:
            found = _GRANT.match(str(text))
            scope = _SCOPE.fullmatch(found[3]) if found else None
            if found is None or scope is None or not _whole(found[2]):
                continue
            database, table = (_plain(part) for part in scope.groups())
            if found[1] == "REVOKE":
                sight.hidden.append(database)
            elif database == "*":
                sight.everything = True
            elif table == "*":
                sight.databases.append(database)
            else:
                sight.tables.add((database, table))
        return sight

    def shows(self, database: str, table: str) -> bool:
        """Return whether all of a table is shown, if it is there."""
        return self.shows_all_of(database) or (database, table) in self.tables

    def shows_all_of(self, database: str) -> bool:
        """Return whether all tables of a database are shown."""
        if any(_granted(name, database) for name in self.hidden):
            return False
        return self.everything or any(_granted(name, database) for name in self.databases)

    def tells(self, pattern: str) -> bool:
        """Return whether a pattern that matches nothing that is shown has nothing that it could match."""
        if self.everything:
            return not self.hidden
        database, _, table = pattern.partition(".")
        if not pattern.startswith(REGEX_PREFIX) and not set(pattern) & set("*?["):
            return self.shows(database, table)
        may_mean = TableCapture((pattern,)).has_database
        return not pattern.startswith(REGEX_PREFIX) and any(may_mean(name) for name in map(_literal, self.databases))


def _whole(privileges: str) -> bool:
    """Return whether one of the privileges is on tables, not on single columns of them."""
    unquoted = re.sub(_QUOTED, "x", privileges)
    return any(name in _OF_TABLES and not columns for name, columns in _PRIVILEGE.findall(unquoted))


def _plain(part: str) -> str:
    return part if part == "*" else part[1:-1].replace(part[0] * 2, part[0])


def _literal(granted: str) -> str:
    return granted.replace("\\_", "_").replace("\\%", "%")


def _granted(pattern: str, database: str) -> bool:
    """Return whether a database is one of a grant's: as LIKE compares them."""
    if _literal(pattern) == database:
        return True
    parts = re.split(r"(\\[_%]|[_%])", pattern)
    signs = {"_": ".", "%": ".*"}
    return re.fullmatch("".join(signs.get(p) or re.escape(p.removeprefix("\\")) for p in parts), database) is not None
