"""Splits that give the rows of some tables only, where two lanes share a batch."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from databus.sources.split_rows import SplitRows

if TYPE_CHECKING:
    import pyarrow as pa

    from databus.rows.image_form import ImageForm


@dataclass(frozen=True)
class SplitOfTables(SplitRows):
    """A split without the rows of other tables; they are decoded, and counted where the split counts.

    Attributes:
        split: the whole split.
        only: `schema_id`s of the tables wanted, `NO_SCHEMA` among them for statements.
    """

    split: SplitRows
    only: frozenset[int]

    def _rows(self, form: ImageForm) -> Iterator[pa.RecordBatch]:
        import pyarrow as pa
        import pyarrow.compute as pc

        wanted = pa.array(sorted(self.only), pa.int32())
        for rows in self.split.read_in(replace(form, only=self.only)):
            mine = pc.is_in(rows["schema_id"], wanted)  # splits of other packages may write all
            yield rows if mine.true_count == len(mine) else rows.filter(mine)


def of_tables(splits: Sequence[Any], only: frozenset[int]) -> tuple[SplitOfTables, ...] | None:
    """Return splits with the rows of some tables; None where one of them cannot leave rows out."""
    if not all(isinstance(split, SplitRows) for split in splits):
        return None
    return tuple(SplitOfTables(split, only) for split in splits)
