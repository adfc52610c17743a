"""Rows of a split, of all tables or of some, whatever it reads them from: images as VARIANT, or as JSON text."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pyarrow as pa

    from databus.rows.image_form import ImageForm
    from databus.rows.json_images import ValueForm
    from databus.rows.row_program import RowProgram, SinkProgram
    from databus.rows.violations import ImageMarks


class SplitRows(ABC):
    """Implements `read` and `read_text` of a split; a subclass reads its rows in a form that it is given."""

    def read(self) -> Iterator[pa.RecordBatch]:
        """Yield batches of `ROW_COLUMNS` in log order, of Kafka partition by partition; the same rows at every call.

        Raises:
            DecodeError: damaged or unsupported bytes, or other rows than were planned; names the position.
            SourceUnavailableError: what is to be read is gone, or does not answer.
        """
        from databus.rows.image_form import VARIANT_FORM

        yield from self._rows(VARIANT_FORM)

    def read_text(
        self,
        columns: Mapping[int, Sequence[tuple[str, str]]],
        marks: ImageMarks | None = None,
        program: RowProgram | SinkProgram | None = None,
        *,
        values: ValueForm | None = None,
    ) -> Iterator[pa.RecordBatch]:
        """Yield the rows of `read` with their images as JSON text of the given columns (see `DirectSplit`)."""
        from databus.rows.image_form import json_form

        yield from self._rows(json_form(columns, marks, program, values=values))

    def read_in(self, form: ImageForm) -> Iterator[pa.RecordBatch]:
        """Yield the rows of `read` with their images in a form (see `ImageSplit`).

        Args:
            form: `read` and `read_text` are those of `VARIANT_FORM` and `json_form`.

        Raises:
            DecodeError, SourceUnavailableError: as `read`.
        """
        yield from self._rows(form)

    @abstractmethod
    def _rows(self, form: ImageForm) -> Iterator[pa.RecordBatch]:
        """Yield the rows with their images in this form."""


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
