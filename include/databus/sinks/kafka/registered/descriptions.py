"""Descriptions of a table's records: what is registered of them, in each format."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from databus.core.errors.sink import SinkSettingError
from databus.core.tables.schemas import TableSchema
from databus.rows.avro import schemas as avro
from databus.rows.avro.types import FLAGS
from databus.rows.json_schema import schemas as json_schema
from databus.rows.protobuf import schemas as protobuf
from databus.rows.protobuf.schemas import FormerField, camel_case
from databus.rows.protobuf.types import FLAGS_NUMBER, ProtobufField, numbered

if TYPE_CHECKING:
    from databus.schema_registry.client import RegisteredSchema

Newest = Callable[[str], "RegisteredSchema | None"]
"""Returns a subject's newest schema, None where there is none."""


@dataclass(frozen=True)
class Subjects:
    """Subjects of a topic: `TOPIC-key` and `TOPIC-value`."""

    topic: str

    @property
    def key(self) -> str:
        """Subject of the keys."""
        return f"{self.topic}-key"

    @property
    def value(self) -> str:
        """Subject of the values."""
        return f"{self.topic}-value"


@dataclass(frozen=True)
class Description:
    """Description of a table's records.

    Attributes:
        value: schema of the values.
        key: schema of the keys, "" without.
        form: fingerprint of the columns.
        numbers: see `RegisteredSchemas`.
        key_numbers: the same.
    """

    value: str
    key: str
    form: str
    numbers: tuple[int, ...] = ()
    key_numbers: tuple[int, ...] = ()


Describe = Callable[[TableSchema, TableSchema, str, str, Newest], Description]
"""(the table, as its rows are written, topic, connector, newest schemas) → description.

Raises SinkSettingError for names that the format does not tell apart, or a newest schema that is not understood.
"""


def _avro(table: TableSchema, written: TableSchema, topic: str, connector: str, newest: Newest) -> Description:  # noqa: ARG001 - its fields have no numbers
    shape = avro.shape_of(table, written.columns, range(len(written.columns)))
    value = avro.envelope_schema(topic, [field for _, field in shape.chosen], connector)
    key = avro.text_of(avro.key_schema(topic, shape.key)) if shape.key else ""
    return Description(avro.text_of(value), key, shape.form)


def _json_schema(table: TableSchema, written: TableSchema, topic: str, connector: str, newest: Newest) -> Description:
    shape, subjects = json_schema.shape_of(table, written.columns, range(len(written.columns))), Subjects(topic)
    columns = [column for _, column in shape.chosen]
    value = json_schema.value_schema(topic, columns, connector, _former_columns(newest(subjects.value)))
    key = ""
    if shape.key:
        key = avro.text_of(json_schema.key_schema(topic, shape.key, _former_columns(newest(subjects.key))))
    return Description(avro.text_of(value), key, shape.form)


def _protobuf(table: TableSchema, written: TableSchema, topic: str, connector: str, newest: Newest) -> Description:  # noqa: ARG001 - its messages do not name it
    shape = protobuf.shape_of(table, written.columns, range(len(written.columns)))
    subjects = Subjects(topic)
    values = _Numbered.of([field for _, field in shape.chosen], newest(subjects.value), ("Envelope", "Value"))
    _require_apart(table.full_name, values)
    value = protobuf.value_schema(topic, values.fields, values.former)
    if not shape.key:
        return Description(value, "", shape.form, values.numbers)
    keys = _Numbered.of(shape.key, newest(subjects.key), ("Key",))
    _require_apart(table.full_name, keys)
    key = protobuf.key_schema(topic, keys.fields, keys.former)
    return Description(value, key, shape.form, values.numbers, keys.numbers)


FORMATS: Mapping[str, Describe] = {"avro": _avro, "json_schema": _json_schema, "protobuf": _protobuf}
"""Format → what describes a table in it."""


@dataclass(frozen=True)
class _Numbered:
    """Fields with the numbers that they have, or get, in a subject."""

    fields: list[tuple[int, ProtobufField]]
    former: dict[str, FormerField]

    @property
    def numbers(self) -> tuple[int, ...]:
        return tuple(number for number, _ in self.fields)

    @classmethod
    def of(
        cls, fields: Sequence[ProtobufField], newest: RegisteredSchema | None, message: tuple[str, ...]
    ) -> _Numbered:
        former: dict[str, FormerField] = {}
        if newest is not None and newest.kind == "PROTOBUF":
            from databus.schema_registry.protobuf import scalar_fields

            try:
                found = scalar_fields(newest, message)
            except ValueError as error:
                raise SinkSettingError(
                    f"Protobuf schema {newest.schema_id}, the newest of its subject, is not understood ({error}): "
                    "the numbers of its fields are not known",
                    hint="Give the sink another `topic`, whose subjects are new.",
                ) from error
            former = {name: FormerField(*told) for name, told in found.items() if told[0] != FLAGS_NUMBER}
        numbers = numbered(fields, {name: field.number for name, field in former.items()})
        return cls(list(zip(numbers, fields, strict=True)), former)


def _require_apart(table: str, numbered: _Numbered) -> None:
    """Refuse two fields of one name in ProtoJSON, such as order_id and orderId: protoc compiles no such message.

    Raises:
        SinkSettingError: names both; one may be a column of before, whose field stays.
    """
    found = {camel_case(FLAGS): FLAGS}
    columns = [field.name for _, field in numbered.fields]
    for name in dict.fromkeys((*columns, *numbered.former)):
        other = found.setdefault(camel_case(name), name)
        if other != name:
            kept = "" if name in columns else ", which its newest schema keeps of a column of before"
            raise SinkSettingError(
                f"{other!r} and {name!r}{kept} of {table} are {camel_case(name)!r} both to protoc, which would refuse "
                "the schema",
                hint=f"Put RenameColumns for {other!r} of {table} into the flow's transforms, or give the sink another "
                "`topic` where the other one is of before.",
                code="sink_avro_name",
            )


def _former_columns(newest: RegisteredSchema | None) -> Mapping[str, json_schema.Schema]:
    if newest is None or newest.kind != "JSON":
        return {}
    try:
        return json_schema.columns_in(json.loads(newest.text))
    except ValueError:
        return {}
