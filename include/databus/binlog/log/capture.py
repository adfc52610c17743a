"""Capture of tables: which tables of a log are decoded."""

from __future__ import annotations

import re
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import lru_cache

from databus.core.errors.config import ConfigError

REGEX_PREFIX = "re:"
"""A pattern that starts so is a regular expression over all of `database.table`; any other is an fnmatch pattern."""

SYSTEM_DATABASES = frozenset({"mysql", "sys", "information_schema", "performance_schema"})
"""Captured only when a pattern names the database literally."""


@dataclass(frozen=True)
class TableCapture:
    """Picklable predicate over database and table names; case matters, as in the log.

    Attributes:
        include: patterns of `database.table`; at least one must match.
        exclude: patterns of which none may match.
        folds: whether the log is of a server with lower_case_table_names, whose statements name tables as typed.
    """

    include: tuple[str, ...]
    exclude: tuple[str, ...] = ()
    folds: bool = False

    def __post_init__(self) -> None:
        for pattern in (*self.include, *self.exclude):
            check_pattern(pattern)

    def __call__(self, database: str, table: str) -> bool:
        """Return whether row changes of a table are captured."""
        return _captured(self, database, table)

    def has_database(self, database: str) -> bool:
        """Return whether tables of a database may be captured; a regular expression may mean all but the server's."""
        included = any(_may_mean(pattern, database) for pattern in _patterns(self, database))
        return included and not any(
            pattern.endswith(".*") and not pattern.startswith(REGEX_PREFIX) and fnmatchcase(database, pattern[:-2])
            for pattern in self.exclude
        )

    def __str__(self) -> str:
        return ",".join(self.include) + (f" without {','.join(self.exclude)}" if self.exclude else "")


def is_name(pattern: str) -> bool:
    """Return whether a pattern can mean one table alone."""
    return not pattern.startswith(REGEX_PREFIX) and not set(pattern) & set("*?[")


def means(pattern: str, name: str) -> bool:
    """Return whether a pattern means `database.table`."""
    return TableCapture((pattern,))(*name.split(".", 1))


def check_pattern(pattern: str) -> str:
    """Return the pattern.

    Raises:
        ConfigError: it is a broken regular expression, or has no dot between database and table.
    """
    if pattern.startswith(REGEX_PREFIX):
        try:
            re.compile(pattern[len(REGEX_PREFIX) :])
        except re.error as error:
            raise ConfigError(f"table pattern {pattern!r} is not a regular expression: {error}") from None
    elif "." not in pattern.strip("."):
        raise ConfigError(
            f"table pattern {pattern!r} names no database",
            hint='Write "shop.orders", "shop.*" or "re:shop\\.(orders|items)".',
        )
    return pattern


@lru_cache(maxsize=4096)
def _captured(capture: TableCapture, database: str, table: str) -> bool:
    name = f"{database}.{table}"
    included = any(_matches(p, name) for p in _patterns(capture, database))
    return included and not any(_matches(p, name) for p in capture.exclude)


def _patterns(capture: TableCapture, database: str) -> tuple[str, ...]:
    """Return the patterns that can mean a database's tables."""
    if database in SYSTEM_DATABASES:
        return tuple(p for p in capture.include if p.startswith(f"{database}."))
    return capture.include


def _may_mean(pattern: str, database: str) -> bool:
    """Return whether a pattern can match a table of a database."""
    if pattern.startswith(REGEX_PREFIX):
        return True
    return any(fnmatchcase(database, pattern[:at]) for at, sign in enumerate(pattern) if sign == ".")


def _matches(pattern: str, name: str) -> bool:
    if pattern.startswith(REGEX_PREFIX):
        return re.fullmatch(pattern[len(REGEX_PREFIX) :], name) is not None
    return fnmatchcase(name, pattern)
