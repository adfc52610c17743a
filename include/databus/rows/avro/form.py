"""Image form whose images and keys are Avro, of the tables whose schemas a plan has pinned."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import pyarrow as pa

from databus.binlog.decoding.table_batch import TableBatch
from databus.core.state.registered_schemas import RegisteredSchemas
from databus.core.tables.schemas import TableSchema
from databus.rows.avro.images import ALONE, NULL_BRANCH, encode, no_images
from databus.rows.avro.schemas import shape_in
from databus.rows.avro.types import AvroField
from databus.rows.image_form import JSON_CHANGES, ImageForm
from databus.rows.json_images import ImageColumns
from databus.rows.violations import ImageMarks
from databus.rows.wire import images
from databus.rows.wire.images import WireImages
from databus.rows.wire.keys import WireKeyEncoder, wire_key_encoder
from databus.rows.wire.shapes import TableShape, require_registered, wire_head


@dataclass(frozen=True)
class AvroForm:
    """Writes images and keys of a plan's tables; picklable.

    Attributes:
        columns: see `ImageColumns`.
        schemas: schema_id → what is registered of the tables wanted; images of others are left empty.
    """

    columns: ImageColumns
    schemas: Mapping[int, RegisteredSchemas]

    def images(self, batch: TableBatch) -> WireImages:
        """Write all images of a batch, as transforms leave it.

        Raises:
            DecodeError: a column holds what its registered type cannot.
        """
        if batch.schema.schema_id not in self.schemas:
            return images.no_images(batch, NULL_BRANCH)
        return encode(batch, self._shape(batch.schema).chosen)

    def keys(self, batch: TableBatch, shown: TableSchema) -> WireKeyEncoder | None:
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
        require_registered(schema, registered, "Avro", shape.form)
        return wire_key_encoder(batch, [(field, ALONE) for field in shape.key], wire_head(registered.key), "Avro")

    def _shape(self, shown: TableSchema, stored: TableSchema | None = None) -> TableShape[AvroField]:
        wanted = self.columns.get(shown.schema_id)
        return shape_in(shown, None if wanted is None else tuple(wanted), stored)


def avro_form(form: AvroForm, marks: ImageMarks | None = None) -> ImageForm:
    """Return the form whose images are Avro: a union of null and a record, without the wire format's head.

    Where there is no image stands the union's null. The column `FORM_KEY` has the keys, with their heads.
    """
    return ImageForm(pa.binary(), form.images, no_images, JSON_CHANGES, marks, keys=form.keys)
