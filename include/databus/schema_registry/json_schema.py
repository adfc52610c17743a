"""JSON Schema: the value is JSON text, which has to be valid."""

from __future__ import annotations

import json
from collections.abc import Callable
from decimal import Decimal
from typing import Any

from jsonschema.validators import Draft7Validator, validator_for
from referencing import Registry, Resource
from referencing.jsonschema import DRAFT7

from databus.schema_registry.client import RegisteredSchema


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
