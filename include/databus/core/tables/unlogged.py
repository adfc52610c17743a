"""Statements that change rows without a row event: what is known of one, for the batch that holds it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

HEAD = 200
"""Characters of a statement that are kept."""


@dataclass(frozen=True)
class UnloggedChange:
    """A statement that takes rows of captured tables away, or brings some, that no row event shows.

    Attributes:
        tables: `database.table` of the captured tables.
        statement: its beginning, on one line.
        file: log file.
        start_pos: where its transaction begins.
        end_pos: where it ends; a flow that goes on there has passed it.
    """

    tables: tuple[str, ...]
    statement: str
    file: str
    start_pos: int
    end_pos: int

    def __str__(self) -> str:
        return f"{self.statement} ({self.file}:{self.start_pos})"

    def to_json(self) -> dict[str, Any]:
        """Return plain JSON."""
        return {
            "tables": list(self.tables),
            "statement": self.statement,
            "file": self.file,
            "start_pos": self.start_pos,
            "end_pos": self.end_pos,
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> UnloggedChange:
        """Read what `to_json` wrote."""
        return cls(tuple(data["tables"]), data["statement"], data["file"], data["start_pos"], data["end_pos"])


def head_of(statement: str) -> str:
    """Return the beginning of a statement on one line."""
    text = " ".join(statement.split())
    return text if len(text) <= HEAD else f"{text[: HEAD - 1]}…"
