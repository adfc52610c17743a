"""Key columns of an index's documents as they are called at a place of the log."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from databus.core.positions.offsets import BinlogOffset, Offset
from databus.core.state.plan import SourcePlan
from databus.core.tables.column_moves import GONE, Columns, names_at, stretches
from databus.core.tables.schemas import MovedColumns, TableSchema
from databus.rows.versions import source_version, versioning
from databus.sinks.elasticsearch.index_state import IndexState


@dataclass(frozen=True)
class Key:
    """Key columns that ids are made of.

    Attributes:
        names: key columns in key order.
        forms: how their values are written; empty where that is not known.
        place: version of the place where they are called so.
    """

    names: tuple[str, ...]
    forms: tuple[str, ...] = ()
    place: int = field(default=0, compare=False)

    def __str__(self) -> str:
        return ", ".join(self.names)

    @property
    def written(self) -> str:
        """Names with forms, e.g. "id decimal(2)"."""
        return ", ".join(" ".join(each) for each in zip(self.names, self.forms, strict=False)) or str(self)

    def may_be(self, other: Key) -> bool:
        """Return whether it is the other one, as far as both are known."""
        return self.names == other.names and (self.forms == other.forms or not (self.forms and other.forms))

    def at(self, place: int, moves: Sequence[tuple[int, Columns]]) -> Key:
        """Return it as its columns are called at another place."""
        return replace(self, names=names_at(self.names, self.place, place, moves), place=place)


def keys_of(standing: IndexState) -> list[Key]:
    """Return what ids of an index's table were made of, in the order in which that came."""
    names = (standing.key, *standing.keys) if standing.key else ()
    forms, places = (*standing.forms, *[()] * len(names)), (*standing.places, *[0] * len(names))
    return [Key(*each) for each in zip(names, forms, places, strict=False)]


def of_keys(moves: Mapping[int, Columns], keys: Sequence[Key]) -> dict[int, tuple[tuple[str, str], ...]]:
    """Return of statements what is about columns that keys have, or had under another name."""
    names = {name.casefold() for key in keys for name in key.names}
    before = 0
    while len(names) > before:
        before = len(names)
        names |= {
            name.casefold() for columns in moves.values() for pair in columns for name in pair
            if not names.isdisjoint(each.casefold() for each in pair)
        } - {GONE}  # fmt: skip
    found = {at: tuple((old, new) for old, new in columns if old.casefold() in names) for at, columns in moves.items()}
    return {at: columns for at, columns in found.items() if columns}


def said(key: Key, here: Key, now: Key) -> tuple[str, str]:
    """Return the former key and the present one as messages name them."""
    if key.names != here.names:
        gone = [old for old, name in zip(key.names, here.names, strict=True) if name == GONE]
        what = f"of which {', '.join(gone)} was dropped" if gone else f"which are called ({here}) now"
        return f"{key}, {what}", str(now)
    return (here.written, now.written) if here.names == now.names else (str(here), str(now))


def version_of(place: Offset) -> int:
    """Return where a place lies among the versions of rows; 0 where it does not."""
    return source_version(place.timeline, place.file_number, place.pos) if isinstance(place, BinlogOffset) else 0


def moves_of(plan: SourcePlan, table: str) -> dict[int, Columns]:
    """Return the version of each statement of a range that moves columns of a table, and what it makes of them."""
    mine = [each for each in plan.columns_moved if each.table == table]
    version = versioning(plan.range.end) if mine else None
    return {version(each.file, each.pos): each.columns for each in mine} if version is not None else {}


def placed(plan: SourcePlan, table: str) -> Iterator[tuple[int, int, int]]:
    """Yield the place of the rows of each definition of a table, its `schema_id`, and the rows before the first there.

    A definition comes once for each stretch that has rows of it.

    Args:
        plan: the range.
        table: its `database.table`.
    """
    for stretch in stretches(plan, table):
        at = version_of(plan.range.start) if stretch.moved is None else _behind(plan, stretch.moved)
        yield from ((at, number, rows) for number, rows in stretch.first)


def place_of_first(plan: SourcePlan, table: TableSchema) -> int:
    """Return the place of the first rows of a definition."""
    places = (at for at, number, _ in placed(plan, table.full_name) if number == table.schema_id)
    return next(places, version_of(plan.range.start))


def _behind(plan: SourcePlan, moved: MovedColumns) -> int:
    return versioning(plan.range.end)(moved.file, moved.pos)
