"""Image form of tables whose schemas a plan has pinned: what Avro, Protobuf and JSON Schema have in common."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, Generic

import pyarrow as pa

from databus.binlog.decoding.table_batch import TableBatch
from databus.core.state.registered_schemas import RegisteredSchemas
from databus.core.tables.schemas import TableSchema
from databus.rows.image_form import JSON_CHANGES, ImageForm, Images
from databus.rows.json_images import ImageColumns
from databus.rows.keys import KeyEncoder
from databus.rows.violations import ImageMarks
from databus.rows.wire.shapes import Field, TableShape, Wanted, require_registered


@dataclass(frozen=True)
class RegisteredForm(ABC, Generic[Field]):
    """Writes images and keys of a plan's tables; picklable.

    Attributes:
        columns: see `ImageColumns`.
        schemas: schema_id → what is registered of the tables wanted; images of others are left empty.
        format: name of the format in errors.
        held_unwritten: see `ImageForm`.
    """

    columns: ImageColumns
    schemas: Mapping[int, RegisteredSchemas]
    format: ClassVar[str]
    held_unwritten: ClassVar[bool] = False

    def images(self, batch: TableBatch) -> Images:
        """Write all images of a batch, as transforms leave it.

        Raises:
            DecodeError: a column holds what its registered type cannot.
        """
        registered = self.schemas.get(batch.schema.schema_id)
        if registered is None:
            return self._empty(batch)
        return self._encode(batch, self._shape(batch.schema), registered)

    def keys(self, batch: TableBatch, shown: TableSchema) -> KeyEncoder | None:
        """Return the encoder of a batch's keys, None of a table that is not wanted or has none.

        Args:
            batch: the changes as they were decoded.
            shown: the table as transforms leave it.

        Raises:
            DecodeError: it has other columns than are registered.
        """
        registered = self.schemas.get(batch.schema.schema_id)
        if registered is None:
            return None
        shape = self._shape(shown, batch.schema)
        require_registered(batch.schema, registered, self.format, shape.form)
        return self._key_encoder(batch, shape, registered)

    def image_form(self, marks: ImageMarks | None = None) -> ImageForm:
        """Return what an encoder writes with; its column `FORM_KEY` has the keys, with their heads."""
        return ImageForm(
            pa.binary(), self.images, self._nulls, JSON_CHANGES, marks, keys=self.keys,
            held_unwritten=self.held_unwritten,
        )  # fmt: skip

    def _shape(self, shown: TableSchema, stored: TableSchema | None = None) -> TableShape[Field]:
        wanted = self.columns.get(shown.schema_id)
        return self._shape_in(shown, None if wanted is None else tuple(wanted), stored)

    @staticmethod
    @abstractmethod
    def _shape_in(shown: TableSchema, wanted: Wanted, stored: TableSchema | None) -> TableShape[Field]:
        """Return the shape of a table's records."""

    @abstractmethod
    def _encode(self, batch: TableBatch, shape: TableShape[Field], registered: RegisteredSchemas) -> Images:
        """Write all images of a batch of a table wanted."""

    @abstractmethod
    def _key_encoder(
        self, batch: TableBatch, shape: TableShape[Field], registered: RegisteredSchemas
    ) -> KeyEncoder | None:
        """Return the encoder of a batch's keys, None where its table has none."""

    @abstractmethod
    def _empty(self, batch: TableBatch) -> Images:
        """Return images of a batch of a table that is not wanted."""

    @staticmethod
    @abstractmethod
    def _nulls(count: int) -> pa.Array:
        """Return so many images where none is."""
