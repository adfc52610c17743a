"""Image form whose images and keys are Avro, of the tables whose schemas a plan has pinned."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from databus.binlog.decoding.table_batch import TableBatch
from databus.core.errors.source import DecodeError
from databus.core.state.registered_schemas import RegisteredSchemas
from databus.core.tables.schemas import TableSchema
from databus.rows.avro.images import AvroImages, encode, no_images
from databus.rows.avro.keys import AvroKeyEncoder, avro_key_encoder
from databus.rows.avro.shapes import TableShape, shape_in, wire_head
from databus.rows.image_form import JSON_CHANGES, ImageForm
from databus.rows.json_images import ImageColumns
from databus.rows.violations import ImageMarks


@dataclass(frozen=True)
class AvroForm:
    """Writes images and keys of a plan's tables; picklable.

    Attributes:
        columns: see `ImageColumns`.
        schemas: schema_id → what is registered of the tables wanted; images of others are left empty.
    """

    columns: ImageColumns
    schemas: Mapping[int, RegisteredSchemas]

    def images(self, batch: TableBatch) -> AvroImages:
        """Write all images of a batch, as transforms leave it.

        Raises:
            DecodeError: a column holds what its registered type cannot.
        """
        if batch.schema.schema_id not in self.schemas:
            return AvroImages(np.zeros(batch.images.num_rows + 1, np.int64), np.zeros(1, np.uint8))
        return encode(batch, self._shape(batch.schema).chosen)

    def keys(self, batch: TableBatch, shown: TableSchema) -> AvroKeyEncoder | None:
        """Return the encoder of a batch's keys, None of a table that is not wanted or has none.

        Args:
            batch: the changes as they were decoded.
            shown: the table as transforms leave it.

        Raises:
            DecodeError: it has other columns than are registered.
        """
        schema = batch.schema
        registered = self.schemas.get(schema.schema_id)
        if registered is None:
            return None
        shape = self._shape(shown, schema)
        if shape.form != registered.form:
            raise DecodeError(
                f"rows of {schema.full_name} have other columns than the Avro schema {registered.value} that was "
                f"registered for {registered.topic} when their batch was planned",
                hint="Two versions of databus move the flow: run one everywhere. If not, report it.",
            )
        return avro_key_encoder(batch, shape.key, wire_head(registered.key))

    def _shape(self, shown: TableSchema, stored: TableSchema | None = None) -> TableShape:
        wanted = self.columns.get(shown.schema_id)
        return shape_in(shown, None if wanted is None else tuple(wanted), stored)


def avro_form(form: AvroForm, marks: ImageMarks | None = None) -> ImageForm:
    """Return the form whose images are Avro: a union of null and a record, without the wire format's head.

    Where there is no image stands the union's null. The column `FORM_KEY` has the keys, with their heads.
    """
    return ImageForm(pa.binary(), form.images, no_images, JSON_CHANGES, marks, keys=form.keys)
