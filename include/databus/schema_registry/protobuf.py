"""Protobuf: message types are compiled from the registry's .proto text, values become ProtoJSON."""

from __future__ import annotations

import base64
import binascii
import re
import tempfile
from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache
from importlib.resources import files
from io import BytesIO
from pathlib import Path, PurePosixPath
from typing import Any

from confluent_kafka.schema_registry.common.protobuf import _init_pool as add_known_files
from confluent_kafka.schema_registry.serde import SchemaId
from google.protobuf.descriptor import Descriptor, FileDescriptor
from google.protobuf.descriptor_pb2 import FieldDescriptorProto, FileDescriptorProto, FileDescriptorSet
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.json_format import MessageToDict
from google.protobuf.message import Message
from google.protobuf.message_factory import GetMessageClass
from grpc_tools import protoc

from databus.schema_registry.client import RegisteredSchema
from databus.schema_registry.documents import json_of

_ROOT = "databus.root.proto"
_TYPES = {
    number: name.removeprefix("TYPE_").lower()
    for name, number in FieldDescriptorProto.Type.items()
    if name not in ("TYPE_GROUP", "TYPE_MESSAGE", "TYPE_ENUM")
}
_BASE64 = re.compile(r"^[A-Za-z0-9+/]+={0,2}$")


@lru_cache(maxsize=1000)
def scalar_fields(schema: RegisteredSchema, message: tuple[str, ...]) -> Mapping[str, tuple[int, str, str]]:
    """Return name → (number, type, name in ProtoJSON) of a message's scalar fields; nothing where it is not there.

    Args:
        schema: of a file that refers to no other.
        message: names from the outermost to its own.

    Raises:
        ValueError: the schema does not compile.
    """
    file = _serialized(_ROOT, schema.text) or next(file for file in _compiled(schema) if file.name == _ROOT)
    inside: Any = file.message_type
    found: Any = None
    for name in message:
        found = next((each for each in inside if each.name == name), None)
        if found is None:
            return {}
        inside = found.nested_type
    return {
        each.name: (each.number, _TYPES[each.type], each.json_name or each.name)
        for each in found.field
        if each.type in _TYPES and each.label == FieldDescriptorProto.LABEL_OPTIONAL
    }


def protobuf_decoder(schema: RegisteredSchema) -> Callable[[bytes], tuple[str, Any]]:
    """Return what reads the bytes behind the schema id (message indexes, then the message) into JSON text and document.

    Fields have the names of the .proto file, and those without presence are always there. 64-bit integers are text, as
    ProtoJSON says. The decoder raises whatever the bytes make protobuf raise.

    Raises:
        Exception: the schema does not compile.
    """
    read, pool = _reader(schema)

    def decode(payload: bytes) -> tuple[str, Any]:
        document = MessageToDict(
            read(payload),
            preserving_proto_field_name=True,
            always_print_fields_with_no_presence=True,
            descriptor_pool=pool,
        )
        return json_of(document), document

    return decode


def values_decoder(schema: RegisteredSchema) -> Callable[[bytes], tuple[str, Any]]:
    """Return what reads as `protobuf_decoder` does, values as they are: integers are numbers, bytes are bytes.

    Fields that are not set are not there.

    Raises:
        Exception: the schema does not compile.
    """
    read, _ = _reader(schema)

    def decode(payload: bytes) -> tuple[str, Any]:
        document = _values(read(payload))
        return json_of(document), document

    return decode


def _values(message: Message) -> dict[str, Any]:
    return {field.name: _value(value) for field, value in message.ListFields()}


def _value(value: Any) -> Any:
    if isinstance(value, Message):
        return _values(value)
    if isinstance(value, Mapping):
        return {name: _value(item) for name, item in value.items()}
    return value if isinstance(value, str | bytes | int | float) else [_value(item) for item in value]


def _reader(schema: RegisteredSchema) -> tuple[Callable[[bytes], Message], DescriptorPool]:
    """Return what reads messages, and the pool that knows their types."""
    pool = DescriptorPool()
    add_known_files(pool)
    root = _root(pool, schema)
    types: dict[tuple[int, ...], type[Message]] = {}

    def read(payload: bytes) -> Message:
        prefix = SchemaId("PROTOBUF")
        rest = prefix.from_bytes(BytesIO(b"\0\0\0\0\0" + payload)).read()
        path = tuple(prefix.message_indexes or ())
        kind = types.get(path)
        if kind is None:
            kind = types[path] = GetMessageClass(_message_type(root, path))
        message = kind()
        message.ParseFromString(rest)
        if not message.IsInitialized():
            raise ValueError("required fields are missing")
        return message

    return read, pool


def _message_type(root: FileDescriptor, path: tuple[int, ...]) -> Descriptor:
    if min(path) < 0:
        raise ValueError(f"{path[0]} is no index of a message")
    found: Descriptor = list(root.message_types_by_name.values())[path[0]]
    for place in path[1:]:
        found = found.nested_types[place]
    return found


def _root(pool: DescriptorPool, schema: RegisteredSchema) -> FileDescriptor:
    parsed = _serialized(_ROOT, schema.text)
    if parsed is None:
        for file in _compiled(schema):
            _add(pool, file)
    else:
        for name, text in schema.references:
            of_reference = _serialized(name, text)
            if of_reference is None:
                raise ValueError(f"{name} is .proto text, which a serialized schema cannot refer to")
            _add(pool, of_reference)
        _add(pool, parsed)
    return pool.FindFileByName(_ROOT)


def _add(pool: DescriptorPool, file: FileDescriptorProto) -> None:
    try:
        pool.FindFileByName(file.name)
    except KeyError:
        pool.Add(file)


def _serialized(name: str, text: str) -> FileDescriptorProto | None:
    """Return a file that stands in the registry as its descriptor in base64 (as Python's client writes), else None."""
    if not _BASE64.match(text.strip()):
        return None
    try:
        file = FileDescriptorProto.FromString(base64.b64decode(text.strip(), validate=True))
    except binascii.Error:
        return None
    file.name = name
    return file


def _compiled(schema: RegisteredSchema) -> Iterable[FileDescriptorProto]:
    with tempfile.TemporaryDirectory(prefix="databus-protobuf-") as folder:
        place = Path(folder) / "in"
        known = FileDescriptorSet()
        for name, text in (*schema.references, (_ROOT, schema.text)):
            serialized = _serialized(name, text)
            if serialized is None:
                _write(place, name, text)
            else:
                known.file.append(serialized)
        result, more = Path(folder) / "out", Path(folder) / "known"
        more.write_bytes(known.SerializeToString())
        options = [f"-I{place}", f"-I{files('grpc_tools') / '_proto'}"]
        if known.file:
            options.append(f"--descriptor_set_in={more}")
        status = protoc.main(["protoc", *options, "--include_imports", f"--descriptor_set_out={result}", _ROOT])
        if status:
            raise ValueError(f"schema {schema.schema_id} does not compile")
        described = FileDescriptorSet.FromString(result.read_bytes())
        return tuple(described.file)


def _write(folder: Path, name: str, text: str) -> None:
    path = PurePosixPath(name)
    if path.is_absolute() or ".." in path.parts:
        raise ValueError(f"{name!r} is no name of a .proto file")
    target = folder / path
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(text, "utf-8")
