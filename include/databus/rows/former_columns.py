"""Former names of row columns, so that a transform, check or sink of another package that uses one gets the new.

One version long; nothing in this package uses them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from databus.core.errors.config import ConfigError

FORMER_COLUMNS = {"file": "log", "position": "place", "gtid": "transaction"}
"""Former name → name."""

_PRINTED = {name: former for former, name in FORMER_COLUMNS.items()}
_NAMES = "|".join(FORMER_COLUMNS)
_IN_SPARK = re.compile(rf"\[UNRESOLVED_COLUMN[^\]]*\][^`]*`({_NAMES})`")
_IN_ARROW = re.compile(rf'Field "({_NAMES})" does not exist')


@contextmanager
def former_columns_named(who: str) -> Iterator[None]:
    """Refuse the use of a former name with the one of today.

    Args:
        who: the transform, check or sink whose code runs.

    Raises:
        ConfigError: it used a former name.
    """
    try:
        yield
    except Exception as error:
        former = _former(error)
        if former is None:
            raise
        raise ConfigError(
            f"{who} uses the column {former!r} of rows, which is {FORMER_COLUMNS[former]!r} now",
            hint=f"Upgrade or mend its package: {', '.join(f'{old} → {new}' for old, new in FORMER_COLUMNS.items())}.",
            code="row_column_renamed",
        ) from error


def as_printed(row: Mapping[str, Any]) -> dict[str, Any]:
    """Return a row under the names in which `databus peek` and `databus decode` print its columns."""
    return {_PRINTED.get(name, name): value for name, value in row.items()}


def _former(error: Exception) -> str | None:
    found = None
    if isinstance(error, KeyError) and error.args:
        found = _IN_ARROW.match(str(error.args[0]))
    elif type(error).__name__ == "AnalysisException":
        found = _IN_SPARK.search(str(error))
    return found[1] if found else None
