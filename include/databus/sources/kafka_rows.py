"""Kafka records → row changes of the table that a topic is."""

from __future__ import annotations

import base64
import json
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa

from databus.binlog.table_batch import DELETE, INSERT, TableBatch, Transactions
from databus.core.tables import ColumnSchema, TableSchema
from databus.sources.kafka_topics import Format, KafkaTopics

_TYPES = {"bytes": ("varbinary", "binary"), "string": ("text", "string"), "json": ("json", "string")}
_FIELD_TYPES: dict[str, tuple[str, str, pa.DataType]] = {
    "bigint": ("bigint", "bigint", pa.int64()),
    "double": ("double", "double", pa.float64()),
    "string": ("text", "string", pa.string()),
    "boolean": ("tinyint(1)", "tinyint", pa.int8()),
    "json": ("json", "string", pa.string()),
}
_CREATE_TIME, _LOG_APPEND_TIME = 1, 2
_TIMESTAMP_TYPES = {_CREATE_TIME: "create", _LOG_APPEND_TIME: "append"}

Exceptions = dict[int, str | bytes]


@dataclass(frozen=True)
class Record:
    """One record as the client gives it; timestamp in ms since the epoch, -1 without."""

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
    spec: KafkaTopics, schemas: Sequence[TableSchema], partition: int, records: Sequence[Record]
) -> Iterator[tuple[TableBatch, Transactions]]:
    """Yield the records of one partition as row changes, those with a key and those without apart.

    Args:
        spec: the source.
        schemas: the topic's schemas as `tables_of` gives them.
        partition: partition number.
        records: in order of their offsets.
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
            yield _batch(spec, schema, partition, chosen), _transactions(file, chosen)


def log_name(topic: str, partition: int) -> str:
    """Return the name of a partition's log, as rows carry it in `file`."""
    return f"{topic}[{partition}]"


def _columns(spec: KafkaTopics) -> tuple[ColumnSchema, ...]:
    key, value = _TYPES[spec.key_format], _TYPES[spec.value_format]
    fields = (
        ColumnSchema(name, *_FIELD_TYPES[kind][:2]) if kind in _FIELD_TYPES else ColumnSchema(name, kind, kind)
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


def _batch(spec: KafkaTopics, schema: TableSchema, partition: int, records: Sequence[Record]) -> TableBatch:
    n = len(records)
    keys, key_faults, _ = _formatted([r.key for r in records], spec.key_format)
    values, value_faults, documents = _formatted([r.value for r in records], spec.value_format)
    stamps = [r.timestamp if r.timestamp >= 0 else None for r in records]
    arrays = [
        keys,
        values,
        *(_field(documents, name, kind) for name, kind in spec.fields.items()),
        pa.array([_headers(r.headers) for r in records], pa.string()),
        pa.array(stamps, pa.int64()),
        pa.array([_TIMESTAMP_TYPES.get(r.timestamp_type) for r in records], pa.string()),
        pa.array(np.full(n, partition, np.int32)),
        pa.array([r.offset for r in records], pa.int64()),
    ]
    deleted = np.array([r.value is None for r in records], np.bool_) & (schema.primary_key == ("key",))
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


def _formatted(values: Sequence[bytes | None], form: Format) -> tuple[pa.Array, Exceptions, Sequence[Any]]:
    """Return a column, what is not of its format by row, and the parsed documents of JSON."""
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


def _field(documents: Sequence[Any], path: str, kind: str) -> pa.Array:
    steps = path.split(".")
    convert = _CONVERTERS.get(kind) or _decimal_converter(kind)
    target = _FIELD_TYPES[kind][2] if kind in _FIELD_TYPES else pa.decimal128(*_digits(kind))
    found = [_at(document, steps) for document in documents]
    return pa.array([None if value is None else convert(value) for value in found], target)


def _at(document: Any, steps: Sequence[str]) -> Any:
    for step in steps:
        if not isinstance(document, Mapping):
            return None
        document = document.get(step)
    return document


def _bigint(value: Any) -> int | None:
    whole = isinstance(value, int) and not isinstance(value, bool)
    return value if whole and -(2**63) <= value < 2**63 else None


def _double(value: Any) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | Decimal):
        return None
    number = float(value)
    return number if math.isfinite(number) else None


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) and _encodable(value) else None


def _encodable(value: str) -> bool:
    return not any("\ud800" <= c <= "\udfff" for c in value)


def _boolean(value: Any) -> int | None:
    return int(value) if isinstance(value, bool) else None


def _document(value: Any) -> str:
    return json.dumps(value, ensure_ascii=True, separators=(",", ":"), default=_number)


def _number(value: Decimal) -> int | float:
    return int(value) if value == value.to_integral_value() and value.as_tuple().exponent == 0 else float(value)


_CONVERTERS: dict[str, Callable[[Any], Any]] = {
    "bigint": _bigint,
    "double": _double,
    "string": _text,
    "boolean": _boolean,
    "json": _document,
}


def _digits(kind: str) -> tuple[int, int]:
    precision, _, scale = kind.removeprefix("decimal(").removesuffix(")").partition(",")
    return int(precision), int(scale)


def _decimal_converter(kind: str) -> Callable[[Any], Decimal | None]:
    precision, scale = _digits(kind)

    def convert(value: Any) -> Decimal | None:
        if isinstance(value, bool) or not isinstance(value, int | Decimal):
            return None
        number = Decimal(value)
        exact = number == round(number, scale) and abs(number) < Decimal(10) ** (precision - scale)
        return round(number, scale) if exact else None

    return convert
