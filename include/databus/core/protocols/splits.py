"""Splits and rows on their way: pieces of a range, and the rows of a batch in transforms and checks."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

if TYPE_CHECKING:
    import pyarrow as pa


class Changes(Protocol):
    """Rows on their way through transforms and checks: a DataFrame plus a typed view of each table's columns."""

    @property
    def rows(self) -> Any:
        """The DataFrame with the columns of `ROW_COLUMNS`, `route`, and whatever the path added."""
        ...


class Split(Protocol):
    """A picklable piece of a range that one Spark task reads; a login it carries shows in no repr."""

    def read(self) -> Iterator[pa.RecordBatch]:
        """Yield batches of the columns `ROW_COLUMNS`, in log order; the same bytes at every call."""
        ...


class DirectSplit(Split, Protocol):
    """A split that can write its row images as JSON text, for sinks that take them so."""

    def read_text(
        self,
        columns: Mapping[int, Sequence[tuple[str, str]]],
        marks: Any | None = None,
        program: Any | None = None,
        *,
        values: Any | None = None,
    ) -> Iterator[pa.RecordBatch]:
        """Yield the rows of `read`, the same at every call, with `before` and `after` as JSON objects (binary).

        The objects say what Spark's `to_json` of the VARIANT images says: the same fields, equal values.

        Args:
            columns: schema_id → (name at the source, name in the image) of the columns wanted; a schema that is not
                named gives all of them.
            marks: `ImageMarks`, what row checks say of the after-images; then there is a column `marks` of them.
            program: `RowProgram`, what transforms do with values and rows; then there is a column `unjudged`. Or
                `SinkProgram`, of a flow and one of its sinks; then there are `flow_op` and `held_for_sink` too.
            values: `ValueForm`, where values are to be written in another form; asked only of encoders that have one.
        """
        ...


@runtime_checkable
class ImageSplit(Split, Protocol):
    """A split that writes its row images in any form it is given."""

    def read_in(self, form: Any) -> Iterator[pa.RecordBatch]:
        """Yield the rows of `read`, the same at every call, with `before` and `after` in a form.

        Args:
            form: `ImageForm`.
        """
        ...


@runtime_checkable
class RawRecordSplit(Protocol):
    """Split whose raw records can be handed on as they are, without becoming rows."""

    def read_raw(self, mine: Callable[[int], bool]) -> Generator[tuple[Any, int]]:
        """Yield `RawRecords` of the partitions that are mine, and how many were left out; the same at every call.

        Args:
            mine: whether a partition (its number) is wanted.
        """
        ...

    def offsets(self, mine: Callable[[int], bool]) -> int:
        """Return how many offsets of those partitions the split passes."""
        ...
