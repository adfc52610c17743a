"""Changes: rows on their way through transforms and checks."""

from __future__ import annotations

from typing import Any, Protocol


class Changes(Protocol):
    """Rows on their way through transforms and checks: a DataFrame plus a typed view of each table's columns."""

    @property
    def rows(self) -> Any:
        """The DataFrame with the columns of `ROW_COLUMNS`, `route`, and whatever the path added."""
        ...
