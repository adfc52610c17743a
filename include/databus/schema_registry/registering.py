"""Registers schemas under subjects of a schema registry; a schema that the subject has already keeps its id."""

from __future__ import annotations

from confluent_kafka.schema_registry import Schema
from confluent_kafka.schema_registry.error import SchemaRegistryError

from databus.core.errors.source import SchemaRefusedError
from databus.schema_registry.client import opened, refuse
from databus.schema_registry.settings import RegistrySettings

_INCOMPATIBLE = 409


def register(settings: RegistrySettings, subject: str, kind: str, text: str) -> int:
    """Return the id of a schema under a subject, which gets it as a new version where it has not got it.

    Args:
        settings: how to reach the registry.
        subject: its name.
        kind: AVRO, JSON or PROTOBUF.
        text: the schema.

    Raises:
        SchemaRefusedError: it does not go with the subject's versions, by the compatibility that is set there.
        DatabusError: as `client.registered`.
    """
    try:
        with opened(settings) as client:
            return int(client.register_schema(subject, Schema(text, kind)))
    except SchemaRegistryError as error:
        if error.http_status_code == _INCOMPATIBLE:
            said = settings.redacted(str(error.error_message))
            raise SchemaRefusedError(f"{settings.conn_id} ({settings.url}): {said}") from None
        refuse(settings, f"cannot register a schema under {subject}", error)
    except Exception as error:  # noqa: BLE001 - mapped one by one, what is not known is raised as it is
        refuse(settings, f"cannot register a schema under {subject}", error)
