"""Records as Confluent's own serialisers write them, with a schema of two versions in a real registry."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from confluent_kafka.schema_registry import SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroSerializer
from confluent_kafka.schema_registry.json_schema import JSONSerializer
from confluent_kafka.schema_registry.protobuf import ProtobufSerializer
from confluent_kafka.serialization import MessageField, SerializationContext
from google.protobuf.descriptor_pb2 import FileDescriptorProto
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message_factory import GetMessageClass

Order = dict[str, Any]
Write = Callable[[Order], bytes]

_AVRO = {"id": "long", "note": "string", "price": {"type": "double", "default": 0.0}}
_JSON = {"id": {"type": "integer"}, "note": {"type": "string"}, "price": {"type": "number"}}
_PROTO = {"id": "TYPE_INT64", "note": "TYPE_STRING", "price": "TYPE_DOUBLE"}


def writer(client: SchemaRegistryClient, form: str, topic: str, *names: str) -> Write:
    """Return what writes an order with the given fields: {"id": 1, "note": "a"} → bytes of the wire format."""
    place = SerializationContext(topic, MessageField.VALUE)
    if form == "avro":
        fields = [{"name": name, "type": kind, **rest} for name in names for kind, rest in [_avro_field(name)]]
        serializer: Any = AvroSerializer(client, json.dumps({"type": "record", "name": "Order", "fields": fields}))
    elif form == "json_schema":
        schema = {"title": "Order", "type": "object", "properties": {name: _JSON[name] for name in names}}
        # Open for more: what is written with the older version stays valid under the newer one.
        serializer = JSONSerializer(json.dumps({**schema, "required": ["id"]}), client)
    else:
        kind = _message_type(names)
        of_message = ProtobufSerializer(kind, client, {"use.deprecated.format": False})
        return lambda order: _bytes(of_message(kind(**order), place))
    return lambda order: _bytes(serializer(order, place))


def key_writer(client: SchemaRegistryClient, topic: str) -> Callable[[str], bytes]:
    """Return what writes a text as a key in Avro."""
    serializer = AvroSerializer(client, '"string"')
    return lambda key: _bytes(serializer(key, SerializationContext(topic, MessageField.KEY)))


def _avro_field(name: str) -> tuple[Any, dict[str, Any]]:
    kind = _AVRO[name]
    return (kind, {}) if isinstance(kind, str) else (kind["type"], {"default": kind["default"]})


def _message_type(names: tuple[str, ...]) -> Any:
    file = FileDescriptorProto(name="order.proto", package="shop", syntax="proto3")
    message = file.message_type.add(name="Order")
    for number, name in enumerate(names, 1):
        field = message.field.add(name=name, number=number)
        field.type, field.label = getattr(field, _PROTO[name]), field.LABEL_OPTIONAL
    pool = DescriptorPool()
    pool.Add(file)
    return GetMessageClass(pool.FindMessageTypeByName("shop.Order"))


def _bytes(written: bytes | None) -> bytes:
    assert written is not None
    return written
