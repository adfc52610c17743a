"""Client of a schema registry: schemas by id, and registration of schemas; any other answer is a named error."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NoReturn

import httpx2
from confluent_kafka.schema_registry import Schema, SchemaRegistryClient
from confluent_kafka.schema_registry.error import OAuthTokenError, SchemaRegistryError

from databus.core.errors.root import DatabusError
from databus.core.errors.source import (
    RegistryAccessError,
    RegistryUnavailableError,
    SchemaRefusedError,
    SourceSettingError,
)
from databus.schema_registry.settings import RegistrySettings
from databus.tls import fault_of

SCHEMA_NOT_FOUND = 40403
_NO_VERSION = (40401, 40402)
_INCOMPATIBLE = 409
_PASSING = (408, 425, 429)
_HINT_ACCESS = "Check login and password of the connection, and that the user may read schemas."
_HINT_PLACE = (
    'The address must be the one where the API begins: often a path belongs to it, extra {"path": "/apis/ccompat/v7"} '
    "for Apicurio."
)


@dataclass(frozen=True)
class RegisteredSchema:
    """A schema as the registry holds it.

    Attributes:
        schema_id: its id.
        kind: AVRO, JSON or PROTOBUF.
        text: the schema.
        references: (name, text) of the schemas it refers to, also by way of others, each once, what is needed first.
    """

    schema_id: int
    kind: str
    text: str
    references: tuple[tuple[str, str], ...] = ()


def registered(settings: RegistrySettings, schema_id: int) -> RegisteredSchema | None:
    """Return the schema of an id, None when the registry has no such id.

    Raises:
        RegistryUnavailableError: it does not answer, or answers that it cannot now.
        RegistryAccessError: it refuses the credentials, or the TLS connection does not come about.
        SourceSettingError: what answers is no schema registry.
    """
    try:
        with _opened(settings) as client:
            found: Schema = client.get_schema(schema_id)
            references: dict[str, str] = {}
            _collect(client, found, references)
    except SchemaRegistryError as error:
        if error.http_status_code == 404 and error.error_code == SCHEMA_NOT_FOUND:
            return None
        _refuse(settings, f"cannot give schema {schema_id}", error)
    except Exception as error:  # noqa: BLE001 - mapped one by one, what is not known is raised as it is
        _refuse(settings, f"cannot give schema {schema_id}", error)
    return RegisteredSchema(schema_id, found.schema_type or "AVRO", found.schema_str or "", tuple(references.items()))


def newest(settings: RegistrySettings, subject: str) -> RegisteredSchema | None:
    """Return the newest schema of a subject, without what it refers to; None where there is none.

    Raises:
        DatabusError: as `registered`.
    """
    what = f"cannot give the newest schema of {subject}"
    try:
        with _opened(settings) as client:
            found = client.get_latest_version(subject)
    except SchemaRegistryError as error:
        if error.http_status_code == 404 and error.error_code in _NO_VERSION:
            return None
        _refuse(settings, what, error)
    except Exception as error:  # noqa: BLE001 - as above
        _refuse(settings, what, error)
    schema = found.schema
    return RegisteredSchema(found.schema_id or 0, schema.schema_type or "AVRO", schema.schema_str or "")


def schema_types(settings: RegistrySettings) -> list[str]:
    """Return the kinds of schema that the registry knows: a request that changes nothing.

    Raises:
        DatabusError: as `registered`.
    """
    try:
        with _opened(settings) as client:
            found = client.get_schema_types()
    except Exception as error:  # noqa: BLE001 - as above
        _refuse(settings, "does not answer", error)
    if not isinstance(found, list):
        raise SourceSettingError(
            f"{settings.conn_id} ({settings.url}): what answers is no schema registry", hint=_HINT_PLACE
        )
    return [str(kind) for kind in found]


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
        with _opened(settings) as client:
            return int(client.register_schema(subject, Schema(text, kind)))
    except SchemaRegistryError as error:
        if error.http_status_code == _INCOMPATIBLE:
            said = settings.redacted(str(error.error_message))
            raise SchemaRefusedError(f"{settings.conn_id} ({settings.url}): {said}") from None
        _refuse(settings, f"cannot register a schema under {subject}", error)
    except Exception as error:  # noqa: BLE001 - mapped one by one, what is not known is raised as it is
        _refuse(settings, f"cannot register a schema under {subject}", error)


def _opened(settings: RegistrySettings) -> SchemaRegistryClient:
    try:
        return SchemaRegistryClient(settings.client_settings())
    except (ValueError, TypeError, OSError) as error:
        # Without the cause: a traceback would print its text, which may quote a value.
        raise SourceSettingError(
            f"{settings.conn_id}: the schema registry's client refuses the settings: {settings.redacted(str(error))}",
            hint="The connection's extra takes the setting names of confluent-kafka's SchemaRegistryClient.",
        ) from None


def _collect(client: SchemaRegistryClient, schema: Schema, into: dict[str, str]) -> None:
    for reference in schema.references or ():
        name, subject, version = reference.name, reference.subject, reference.version
        if name is None or subject is None or version is None:
            raise ValueError("a reference names no schema")
        if name not in into:
            found = client.get_version(subject, version, True).schema  # deleted ones are still used
            _collect(client, found, into)
            into[name] = found.schema_str or ""


def _refuse(settings: RegistrySettings, what: str, error: Exception) -> NoReturn:
    raise _mapped(settings, what, error) from None


def _mapped(settings: RegistrySettings, what: str, error: Exception) -> Exception:
    where = f"{settings.conn_id} ({settings.url}): the schema registry {what}"
    if isinstance(error, SchemaRegistryError):
        return _answered(settings.redacted(f"{where}: {error}"), error.http_status_code)
    if isinstance(error, OAuthTokenError):
        return RegistryAccessError(settings.redacted(f"{where}: {error.message}"), hint=_HINT_ACCESS)
    if isinstance(error, httpx2.TransportError):
        fault = fault_of(error)
        if fault is None:
            return RegistryUnavailableError(settings.redacted(f"{where}: {str(error) or type(error).__name__}"))
        hint = fault.hint.format(ca="ssl.ca.location", cert="ssl.certificate.location")
        return RegistryAccessError(f"{where}: {fault.what}", hint=hint, code=fault.code)
    if isinstance(error, ValueError | TypeError | AttributeError | KeyError):
        return SourceSettingError(
            f"{where}: what answers is no schema registry ({type(error).__name__})", hint=_HINT_PLACE
        )
    return error


def _answered(text: str, status: int) -> DatabusError:
    if status in (401, 403):
        return RegistryAccessError(text, hint=_HINT_ACCESS)
    if status in _PASSING or status >= 500:
        return RegistryUnavailableError(text)
    return SourceSettingError(text, hint=_HINT_PLACE)
