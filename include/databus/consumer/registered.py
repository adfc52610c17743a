"""Records in the wire format of a schema registry, read as the same changes in JSON are: Avro and JSON Schema."""

from __future__ import annotations

import functools
import json
import struct
from collections.abc import Callable, Mapping
from decimal import Decimal
from typing import Any

from databus.consumer.json_text import parsed
from databus.consumer.places import connection_of
from databus.schema_registry.client import RegisteredSchema, registered
from databus.schema_registry.settings import RegistrySettings
from databus.schema_registry.texts import avro_decoder

_PREFIX = 5
"""Bytes of the wire format before the payload: 0, and the schema's id, four bytes, the highest first."""
_TIMEOUT_S = 30.0
_FLAGS = "__flags"
_ABSENT = "absent"


class RegisteredValues:
    """Reader of keys and values; asks the registry once for each schema.

    Args:
        registry: URL of the registry's API, or the id of a connection.
    """

    def __init__(self, registry: str):
        self._settings = _settings(registry)
        self._decoders: dict[int, Callable[[bytes], Any]] = {}

    def document(self, data: bytes) -> Any:
        """Return a value as its record in JSON has it; bytes as bytes, decimals as Decimal.

        Raises:
            ValueError: the registry has no schema of this id, or of another kind; or the bytes are not of it.
            DatabusError: the registry does not answer, refuses, or is none.
        """
        if len(data) < _PREFIX:
            raise ValueError("it ends within its schema's id")
        schema_id = int.from_bytes(data[1:_PREFIX], "big")
        decode = self._decoders.get(schema_id)
        if decode is None:
            decode = self._decoders[schema_id] = self._decoder(schema_id)
        try:
            return decode(data[_PREFIX:])
        except Exception as error:  # noqa: BLE001 - bytes of others make readers raise all kinds
            raise ValueError(f"its bytes are not of schema {schema_id} ({type(error).__name__}: {error})") from None

    def _decoder(self, schema_id: int) -> Callable[[bytes], Any]:
        schema = registered(self._settings, schema_id)
        if schema is None:
            raise ValueError(f"the registry {self._settings.conn_id} has no schema {schema_id}")
        if schema.kind == "JSON":
            return parsed
        if schema.kind != "AVRO":
            raise ValueError(f"schema {schema_id} is {schema.kind}: Avro and JSON Schema are read here")
        return functools.partial(_avro, _reader(schema), _singles(json.loads(schema.text)))


def _reader(schema: RegisteredSchema) -> Callable[[bytes], tuple[str, Any]]:
    try:
        return avro_decoder(schema)
    except Exception as error:  # noqa: BLE001 - whatever is wrong with it
        raise ValueError(f"schema {schema.schema_id} is not understood ({type(error).__name__})") from None


def _avro(read: Callable[[bytes], tuple[str, Any]], singles: frozenset[str], payload: bytes) -> Any:
    _, document = read(payload)
    if isinstance(document, dict) and "source" in document:
        for image in ("before", "after"):
            document[image] = _columns(document.get(image), singles)
    return document


def _singles(schema: Any) -> frozenset[str]:
    """Return the fields of a schema's records that are floats of four bytes."""
    if isinstance(schema, list):
        return frozenset[str]().union(*map(_singles, schema))
    if not isinstance(schema, dict):
        return frozenset()
    fields = schema.get("fields", ())
    found = frozenset(each["name"] for each in fields if "float" in _plain(each["type"]))
    return found | _singles(schema.get("type")).union(*(_singles(each["type"]) for each in fields))


def _plain(kind: Any) -> list[Any]:
    return [
        each.get("type") if isinstance(each, dict) else each for each in (kind if isinstance(kind, list) else [kind])
    ]


def _columns(image: Mapping[str, Any] | None, singles: frozenset[str]) -> Mapping[str, Any] | None:
    """Return an image without what says of its columns that they are absent."""
    if image is None:
        return None
    flags = image.get(_FLAGS) or {}
    return {
        name: _decimal(value, single=name in singles) if isinstance(value, float) else value
        for name, value in image.items()
        if name != _FLAGS and flags.get(name) != _ABSENT
    }


def _decimal(value: float, *, single: bool) -> Decimal:
    """Return the shortest decimal that is this float, as the same change in JSON has it."""
    if single:
        texts = (f"{value:.{digits}g}" for digits in range(1, 10))
        return Decimal(next((text for text in texts if _as_single(text) == value), repr(value)))
    return Decimal(repr(value))


def _as_single(text: str) -> float | None:
    try:
        return float(struct.unpack("<f", struct.pack("<f", float(text)))[0])
    except OverflowError:  # rounded up beyond the greatest float
        return None


def _settings(registry: str) -> RegistrySettings:
    if registry.startswith(("http://", "https://")):
        return RegistrySettings(registry, registry, timeout_s=_TIMEOUT_S)
    return RegistrySettings.of(connection_of(registry), _TIMEOUT_S)
