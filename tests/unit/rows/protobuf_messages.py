"""Message types of a .proto text, compiled by protoc."""

from __future__ import annotations

from typing import Any

from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message_factory import GetMessageClass

from databus.schema_registry.client import RegisteredSchema
from databus.schema_registry.protobuf import _compiled

FLAGS = "__flags"


def message_type(text: str, name: str) -> Any:
    """Return the class of a message ("Envelope.Value") of a schema."""
    pool = DescriptorPool()
    for file in _compiled(RegisteredSchema(1, "PROTOBUF", text)):
        pool.Add(file)
    package = next(line for line in text.splitlines() if line.startswith("package "))[len("package ") : -1]
    return GetMessageClass(pool.FindMessageTypeByName(f"{package}.{name}"))


def values_of(message: Any) -> dict[str, Any]:
    """Return field → value, None where a field is not set; without flags."""
    return {
        field.name: getattr(message, field.name) if message.HasField(field.name) else None
        for field in message.DESCRIPTOR.fields
        if field.name != FLAGS
    }


def flags_of(message: Any) -> dict[str, str]:
    """Return the flags of an image."""
    return dict(getattr(message, FLAGS))
