"""Image form whose images and keys are Avro, of the tables whose schemas a plan has pinned."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from databus.binlog.decoding.table_batch import TableBatch
from databus.core.errors.source import DecodeError
from databus.core.state.registered_schemas import RegisteredSchemas
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
        """Write all images of a batch.

        Raises:
            DecodeError: it has other columns than are registered.
        """
        shape = self._shape(batch)
        if shape is None:
            return AvroImages(np.zeros(batch.images.num_rows + 1, np.int64), np.zeros(1, np.uint8))
        return encode(batch, shape.chosen)

    def keys(self, batch: TableBatch) -> AvroKeyEncoder | None:
        """Return the encoder of a batch's keys, None of a table that is not wanted or has none."""
        shape = self._shape(batch)
        if shape is None:
            return None
        return avro_key_encoder(batch, shape.key, wire_head(self.schemas[batch.schema.schema_id].key))

    def _shape(self, batch: TableBatch) -> TableShape | None:
        schema = batch.schema
        registered = self.schemas.get(schema.schema_id)
        if registered is None:
            return None
        wanted = self.columns.get(schema.schema_id)
        shape = shape_in(schema, None if wanted is None else tuple(wanted))
        if shape.form != registered.form:
            raise DecodeError(
                f"rows of {schema.full_name} have other columns than the Avro schema {registered.value} that was "
                f"registered for {registered.topic} when their batch was planned",
                hint="Two versions of databus move the flow: run one everywhere. If not, report it.",
            )
        return shape


def avro_form(form: AvroForm, marks: ImageMarks | None = None) -> ImageForm:
    """Return the form whose images are Avro: a union of null and a record, without the wire format's head.

    Where there is no image stands the union's null. The column `FORM_KEY` has the keys, with their heads.
    """
    return ImageForm(pa.binary(), form.images, no_images, JSON_CHANGES, marks, keys=form.keys)
