"""Kafka records → row changes of the table that a topic is."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from databus.binlog.decoding.table_batch import DELETE, INSERT, TableBatch, Transactions
from databus.core.tables.schemas import ColumnSchema, TableSchema
from databus.rows.flags import RefusedBytes
from databus.sources.kafka.json_fields import FIELD_COLUMNS, field_column
from databus.sources.kafka.spec import REGISTRY_FORMATS, Format, KafkaTopics

if TYPE_CHECKING:
    from databus.schema_registry.decoder import SchemaDecoder

_JSON = ("json", "string")
_TYPES = {"bytes": ("varbinary", "binary"), "string": ("text", "string")}
_CREATE_TIME, _LOG_APPEND_TIME = 1, 2
_TIMESTAMP_TYPES = {_CREATE_TIME: "create", _LOG_APPEND_TIME: "append"}

Exceptions = dict[int, str | bytes]
Decoders = Mapping[str, "SchemaDecoder"]
NO_DECODERS: Decoders = {}


@dataclass(frozen=True)
class Record:
    """Kafka record as the client gives it; timestamp in ms since the epoch, -1 without."""

    offset: int
    key: bytes | None
    value: bytes | None
    headers: Sequence[tuple[str, bytes | None]]
    timestamp_type: int
    timestamp: int


def tables_of(spec: KafkaTopics, topics: Sequence[str]) -> tuple[TableSchema, ...]:
    """Return the schemas of topics: of keyed records, then of those without a key, or one of both kinds."""
    columns = _columns(spec)
    keys = (("key",), ("partition", "offset")) if spec.identity == "key" else (("partition", "offset"),)
    return tuple(
        TableSchema(place * len(keys) + number, spec.database, topic, columns, key)
        for place, topic in enumerate(topics)
        for number, key in enumerate(keys)
    )


def batches(
    spec: KafkaTopics,
    schemas: Sequence[TableSchema],
    partition: int,
    records: Sequence[Record],
    decoders: Decoders = NO_DECODERS,
) -> Iterator[tuple[TableBatch, Transactions]]:
    """Yield the records of one partition as row changes, those with a key and those without apart.

    Args:
        spec: the source.
        schemas: the topic's schemas as `tables_of` gives them.
        partition: partition number.
        records: in order of their offsets.
        decoders: of formats that a schema registry describes, by format.

    Raises:
        DatabusError: the registry does not answer, refuses, or is none.
    """
    file = log_name(schemas[0].table, partition)
    if len(schemas) == 1:
        groups = [(schemas[0], list(records))]
    else:
        keyed = [r for r in records if r.key is not None]
        groups = [(schemas[0], keyed)]
        if len(keyed) < len(records):
            groups.append((schemas[1], [r for r in records if r.key is None]))
    for schema, chosen in groups:
        if chosen:
            yield _batch(spec, schema, partition, chosen, decoders), _transactions(file, chosen)


def log_name(topic: str, partition: int) -> str:
    """Return the name of a partition's log, as rows carry it in `log`."""
    return f"{topic}[{partition}]"


def _columns(spec: KafkaTopics) -> tuple[ColumnSchema, ...]:
    key, value = (_TYPES.get(form, _JSON) for form in (spec.key_format, spec.value_format))
    fields = (
        ColumnSchema(name, *FIELD_COLUMNS[kind][:2]) if kind in FIELD_COLUMNS else ColumnSchema(name, kind, kind)
        for name, kind in spec.fields.items()
    )
    return (
        ColumnSchema("key", *key),
        ColumnSchema("value", *value),
        *fields,
        ColumnSchema("headers", "json", "string"),
        ColumnSchema("timestamp", "bigint", "bigint"),
        ColumnSchema("timestamp_type", "text", "string"),
        ColumnSchema("partition", "int", "int", nullable=False),
        ColumnSchema("offset", "bigint", "bigint", nullable=False),
    )


def _batch(
    spec: KafkaTopics, schema: TableSchema, partition: int, records: Sequence[Record], decoders: Decoders
) -> TableBatch:
    n = len(records)
    keys, key_faults, _ = _formatted([r.key for r in records], spec.key_format, decoders)
    values, value_faults, documents = _formatted([r.value for r in records], spec.value_format, decoders)
    stamps = [r.timestamp if r.timestamp >= 0 else None for r in records]
    arrays = [
        keys,
        values,
        *(field_column(documents, name, kind, spec.value_format) for name, kind in spec.fields.items()),
        pa.array([_headers(r.headers) for r in records], pa.string()),
        pa.array(stamps, pa.int64()),
        pa.array([_TIMESTAMP_TYPES.get(r.timestamp_type) for r in records], pa.string()),
        pa.array(np.full(n, partition, np.int32)),
        pa.array([r.offset for r in records], pa.int64()),
    ]
    deleted = np.array([r.value is None for r in records], np.bool_) & (schema.primary_key == ("key",))
    if spec.key_format in REGISTRY_FORMATS:
        deleted[list(key_faults)] = False  # what it deletes cannot be determined: it is kept, and judged as a record
    row = np.arange(n, dtype=np.int32)
    return TableBatch(
        schema,
        pa.RecordBatch.from_arrays(arrays, [c.name for c in schema.columns]),
        np.where(deleted, DELETE, INSERT).astype(np.int8),
        np.where(deleted, row, np.int32(-1)).astype(np.int32),
        np.where(deleted, np.int32(-1), row).astype(np.int32),
        row,
        np.zeros(n, np.int64),
        np.zeros(n, np.int32),
        (np.ones(len(schema.columns), np.bool_),),
        {place: faults for place, faults in enumerate((key_faults, value_faults)) if faults},
    )


def _transactions(file: str, records: Sequence[Record]) -> Transactions:
    offset = np.array([r.offset for r in records], np.int64)
    stamps = np.array([max(r.timestamp, 0) for r in records], np.int64)
    return Transactions(
        file, offset, offset, pa.repeat(pa.scalar(""), len(records)), stamps, np.zeros(len(records), np.int64)
    )


def _formatted(
    values: Sequence[bytes | None], form: Format, decoders: Decoders
) -> tuple[pa.Array, Exceptions, Sequence[Any]]:
    """Return a column, what is not of its format by row, and the parsed documents of JSON and the like."""
    if form in REGISTRY_FORMATS:
        decoded = decoders[form].decode(values)
        refused: Exceptions = {row: RefusedBytes(values[row] or b"", why) for row, why in decoded.faults.items()}
        return pa.array(decoded.texts, pa.string()), refused, decoded.documents
    if form == "bytes":
        return pa.array(values, pa.binary()), {}, ()
    faults: Exceptions = {}
    documents: list[Any] = []
    if form == "json":
        for row, value in enumerate(values):
            try:
                documents.append(None if value is None else _parsed(value))
            except ValueError:
                documents.append(None)
                faults[row] = value or b""
    try:
        column = pa.array([None if row in faults else v for row, v in enumerate(values)], pa.binary()).cast(pa.string())
    except pa.ArrowInvalid:  # some value is not UTF-8
        faults |= {row: v for row, v in enumerate(values) if v is not None and not _is_text(v)}
        column = pa.array([None if row in faults else v for row, v in enumerate(values)], pa.binary()).cast(pa.string())
    return column, faults, documents


def _parsed(value: bytes) -> Any:
    return json.loads(value.decode("utf-8"), parse_float=Decimal, parse_constant=_refuse)


def _refuse(name: str) -> Any:
    raise ValueError(f"{name} is not JSON")


def _is_text(value: bytes) -> bool:
    try:
        value.decode("utf-8")
    except UnicodeDecodeError:
        return False
    return True


def _headers(headers: Sequence[tuple[str, bytes | None]]) -> str:
    if not headers:
        return "[]"
    return json.dumps([[name, _header(value)] for name, value in headers], ensure_ascii=False, separators=(",", ":"))


def _header(value: bytes | None) -> Any:
    if value is None or _is_text(value):
        return None if value is None else value.decode("utf-8")
    return {"base64": base64.b64encode(value).decode("ascii")}
