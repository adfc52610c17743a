"""Records with a registered schema as those in JSON read: for what looks at single records, such as `databus trace`."""

from __future__ import annotations

import json
from decimal import Decimal
from typing import TYPE_CHECKING, Any, cast

from databus.rows.wire.shapes import MAGIC, wire_head
from databus.schema_registry.documents import json_of
from databus.schema_registry.settings import RegistrySettings

if TYPE_CHECKING:
    from confluent_kafka import Message


class DecodedMessage:
    """Kafka message whose key and value are JSON; all else is as it came.

    Attributes:
        raw: the message as it came.
    """

    def __init__(self, raw: Message, key: bytes | None, value: bytes | None):
        self.raw, self._key, self._value = raw, key, value

    def key(self) -> bytes | None:
        """Return the key: its record's fields as a canonical key has them, under their names in the format."""
        return self._key

    def value(self) -> bytes | None:
        """Return the value: the envelope as JSON; one that the registry does not explain, as it came."""
        return self._value

    def __getattr__(self, name: str) -> Any:
        return getattr(self.raw, name)


class JsonMessages:
    """Takes the schema's id off messages in JSON."""

    def decoded(self, message: Message) -> Message:
        """Return a message with key and value as JSON."""
        key, value = cast("list[bytes | None]", [message.key(), message.value()])
        return cast("Message", DecodedMessage(message, _without_id(key), _without_id(value)))


class RegisteredMessages:
    """Decodes messages with the schemas that they name; each schema is asked for once.

    Args:
        settings: how to reach the registry.
        form: "avro" or "protobuf".
    """

    def __init__(self, settings: RegistrySettings, form: str):
        from databus.schema_registry.decoder import SchemaDecoder

        if form == "protobuf":
            from databus.schema_registry.protobuf import values_decoder

            self._decoder = SchemaDecoder(settings, form, values_decoder)
        else:
            self._decoder = SchemaDecoder(settings, form)

    def decoded(self, message: Message) -> Message:
        """Return a message with key and value as JSON.

        Raises:
            DatabusError: the registry does not answer, refuses, or is none.
        """
        given = cast("list[bytes | None]", [message.key(), message.value()])
        found = self._decoder.decode(given)
        key, value = found.documents
        return cast(
            "Message",
            DecodedMessage(
                message,
                _canonical(key) if isinstance(key, dict) else given[0],
                given[1] if value is None else json_of(value).encode(),
            ),
        )


def _without_id(data: bytes | None) -> bytes | None:
    return data[len(wire_head(0)) :] if data is not None and data.startswith(MAGIC) else data


def _canonical(key: dict[str, Any]) -> bytes:
    parts = (f"{json.dumps(name, ensure_ascii=False)}:{_literal(value)}" for name, value in key.items())
    return f"{{{','.join(parts)}}}".encode()


def _literal(value: Any) -> str:
    return format(value, "f") if isinstance(value, Decimal) else json_of(value)
