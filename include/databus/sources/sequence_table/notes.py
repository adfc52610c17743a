"""Note at a log of PostgreSQL, a comment of its column `after`: what its images lack, and triggers that are known."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass

import sqlalchemy as sa

_SAYS = "databus: "
_NOTE = sa.text(
    "SELECT col_description(a.attrelid, a.attnum) FROM pg_attribute a JOIN pg_class c ON c.oid = a.attrelid "
    "JOIN pg_namespace n ON n.oid = c.relnamespace "
    "WHERE n.nspname = :schema AND c.relname = :name AND a.attname = 'after' AND NOT a.attisdropped"
)


@dataclass(frozen=True)
class LogNote:
    """Note at a log. A catalog's comment is seen by whoever reads the log.

    Attributes:
        exclude: columns of the captured table that are not logged.
        once: columns that were not logged at an earlier time: older images lack them.
        other_triggers: triggers and foreign keys of the captured table that are known not to write to it.
    """

    exclude: tuple[str, ...] = ()
    once: tuple[str, ...] = ()
    other_triggers: tuple[str, ...] = ()

    @property
    def left_out(self) -> frozenset[str]:
        """Columns that an image may lack though the row had them."""
        return frozenset((*self.exclude, *self.once))

    @property
    def text(self) -> str:
        """The comment."""
        named = {"exclude": self.exclude, "once": self.once, "other_triggers": self.other_triggers}
        return _SAYS + json.dumps(named, ensure_ascii=False)

    def renewed(self, exclude: Iterable[str], other_triggers: Iterable[str]) -> LogNote:
        """Return the note behind an installation with these options: what images lack is not forgotten."""
        now = tuple(sorted(set(exclude)))
        return LogNote(now, tuple(sorted(self.left_out - set(now))), tuple(sorted(set(other_triggers))))


def note_from(text: str | None) -> LogNote:
    """Return the note that a comment is; an empty one for any other comment."""
    if not (text or "").startswith(_SAYS):
        return LogNote()
    try:
        return LogNote(**{name: tuple(each) for name, each in json.loads(str(text).removeprefix(_SAYS)).items()})
    except (ValueError, TypeError, AttributeError):
        return LogNote()


def note_of(session: sa.Connection, table: str) -> LogNote:
    """Return the note at a log, `schema.table`; an empty one where there is none."""
    schema, _, name = table.partition(".")
    return note_from(session.execute(_NOTE, {"schema": schema, "name": name}).scalar())
