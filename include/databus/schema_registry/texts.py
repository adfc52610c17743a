"""Avro and JSON Schema: each value is read with the schema it was written with."""

from __future__ import annotations

import json
from collections.abc import Callable
from decimal import Decimal
from io import BytesIO
from typing import Any

from confluent_kafka.schema_registry.common.avro import parse_schema_with_repo
from fastavro import schemaless_reader
from jsonschema.validators import Draft7Validator, validator_for
from referencing import Registry, Resource
from referencing.jsonschema import DRAFT7

from databus.schema_registry.client import RegisteredSchema
from databus.schema_registry.documents import json_of


def avro_decoder(schema: RegisteredSchema) -> Callable[[bytes], tuple[str, Any]]:
    """Return what reads the bytes behind the schema id into JSON text and document.

    The decoder raises whatever the bytes make fastavro raise, and ValueError when some are left over.

    Raises:
        Exception: the schema is none.
    """
    named: dict[str, Any] = {}
    for name, text in schema.references:
        of_reference = json.loads(text)
        named[name] = of_reference
        if isinstance(of_reference, dict) and "name" in of_reference:
            named[_full_name(of_reference)] = of_reference
    root = json.loads(schema.text)
    if isinstance(root, str):
        root = {"type": root}
    parsed = parse_schema_with_repo(json.dumps(root), named)

    def decode(payload: bytes) -> tuple[str, Any]:
        source = BytesIO(payload)
        document = schemaless_reader(source, parsed, None)
        if left := len(payload) - source.tell():
            raise ValueError(f"{left} bytes are left over")
        return json_of(document), document

    return decode


def _full_name(schema: dict[str, Any]) -> str:
    name, space = str(schema["name"]), schema.get("namespace")
    return f"{space}.{name}" if space and "." not in name else name


def json_schema_decoder(schema: RegisteredSchema) -> Callable[[bytes], tuple[str, Any]]:
    """Return what reads the bytes behind the schema id into JSON text and document, fractions as Decimal.

    The decoder raises ValueError for what is no JSON, or not valid. Schemas are never fetched from where a `$ref`
    points: only the references that the registry keeps are known.

    Raises:
        Exception: the schema is none.
    """
    root = json.loads(schema.text)
    resources = (
        (name, Resource.from_contents(json.loads(text), default_specification=DRAFT7))
        for name, text in schema.references
    )
    known: Registry[Any] = Registry().with_resources(resources)
    kind = validator_for(root, default=Draft7Validator)
    kind.check_schema(root)
    validator = kind(root, registry=known)

    def decode(payload: bytes) -> tuple[str, Any]:
        text = payload.decode("utf-8")
        if not validator.is_valid(json.loads(text, parse_constant=_refuse)):
            raise ValueError("it is not valid")
        return text, json.loads(text, parse_float=Decimal)

    return decode


def _refuse(name: str) -> Any:
    raise ValueError(f"{name} is not JSON")
