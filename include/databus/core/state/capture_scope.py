"""Capture scope of a flow: which tables it captured at its last claim, so that tables added since are known."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from databus.core.stored_form import Form

CAPTURE_SCOPE = Form("capture scope", "tables exclude_tables")


@dataclass(frozen=True)
class CaptureScope:
    """Capture scope: names and patterns of tables, as the flow's source writes them.

    A table that is created later under a pattern that was there already needs no snapshot: the log has all its rows.
    One that only a changed pattern means had rows before that nobody read.

    Attributes:
        tables: what is captured.
        exclude_tables: what is left out of it.
    """

    tables: tuple[str, ...]
    exclude_tables: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """Return versioned JSON."""
        return CAPTURE_SCOPE.write({"tables": list(self.tables), "exclude_tables": list(self.exclude_tables)})

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> CaptureScope:
        """Read what `to_json` wrote.

        Raises:
            CheckpointFormatError: another version, or not a scope.
        """
        values = CAPTURE_SCOPE.read(data)
        return cls(tuple(values["tables"]), tuple(values["exclude_tables"]))

    def __str__(self) -> str:
        without = f" without {', '.join(self.exclude_tables)}" if self.exclude_tables else ""
        return ", ".join(self.tables) + without
