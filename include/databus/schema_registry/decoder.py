"""Decodes a column of values in Confluent's wire format; work per schema is done once in a process.

Wire format: byte 0, four bytes of schema id (big-endian), the payload; of Protobuf the payload begins with the indexes
of the message type (Confluent Schema Registry documentation, "Wire format").
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from threading import Lock
from typing import Any

from cachetools import LRUCache

from databus.schema_registry.client import RegisteredSchema, registered
from databus.schema_registry.settings import KINDS, RegistrySettings

log = logging.getLogger(__name__)

UNFRAMED, SCHEMA_UNKNOWN, UNDECODABLE = "unframed", "schema_unknown", "undecodable"
"""Why a value is not decoded: no wire format; an id the registry does not have, or of another kind; or the bytes."""

Decode = Callable[[bytes], tuple[str, Any]]
Make = Callable[[RegisteredSchema], Decode]
_PREFIX = 5
_KEPT = 1000


@dataclass
class DecodedColumn:
    """A column of decoded values.

    Attributes:
        texts: JSON text of each value, None where there is none.
        documents: the same as objects.
        faults: row → why its value is not decoded.
    """

    texts: list[str | None]
    documents: list[Any]
    faults: dict[int, str] = field(default_factory=dict)


class SchemaDecoder:
    """Decodes values of one format; asks the registry once for each id that this process has not seen.

    Ids that the registry does not have are asked for again by the next decoder.

    Args:
        settings: how to reach the registry.
        form: "avro", "json_schema" or "protobuf".
        make: makes the decoder of a schema; None for that of the source `KafkaTopics`.
    """

    def __init__(self, settings: RegistrySettings, form: str, make: Make | None = None):
        self._settings, self._form, self._make = settings, form, make
        self._unknown: set[int] = set()

    def decode(self, values: Sequence[bytes | None]) -> DecodedColumn:
        """Decode values, each with the schema it names.

        Raises:
            DatabusError: the registry does not answer, refuses, or is none.
        """
        found = DecodedColumn([None] * len(values), [None] * len(values))
        for row, value in enumerate(values):
            if value is None:
                continue
            if len(value) < _PREFIX or value[0]:
                found.faults[row] = UNFRAMED
                continue
            decode = self._decoder(int.from_bytes(value[1:_PREFIX], "big"))
            if decode is None:
                found.faults[row] = SCHEMA_UNKNOWN
                continue
            try:
                found.texts[row], found.documents[row] = decode(value[_PREFIX:])
            except Exception:  # noqa: BLE001 - bytes of others make readers raise all kinds; the value is kept
                found.faults[row] = UNDECODABLE
        return found

    def _decoder(self, schema_id: int) -> Decode | None:
        place = (self._settings, self._form, self._make, schema_id)
        with _LOCK:
            known: Decode | None = _DECODERS.get(place)
        if known is not None or schema_id in self._unknown:
            return known
        made = self._made(schema_id)
        if made is None:
            self._unknown.add(schema_id)
        else:
            with _LOCK:
                _DECODERS[place] = made
        return made

    def _made(self, schema_id: int) -> Decode | None:
        kind = KINDS[self._form]
        schema = registered(self._settings, schema_id)
        if schema is None:
            log.warning("%s: the schema registry has no schema %d", self._settings.conn_id, schema_id)
            return None
        if schema.kind != kind:
            log.warning("%s: schema %d is %s, not %s", self._settings.conn_id, schema_id, schema.kind, kind)
            return None
        try:
            return (self._make or _maker(self._form))(schema)
        except Exception as error:  # noqa: BLE001 - whatever is wrong with it, values of it cannot be decoded
            log.warning("%s: schema %d is not understood: %s", self._settings.conn_id, schema_id, error)
            return None


def _maker(form: str) -> Make:
    """Return what makes decoders of a format; each library is loaded when it is needed."""
    if form == "avro":
        from databus.schema_registry.texts import avro_decoder

        return avro_decoder
    if form == "protobuf":
        from databus.schema_registry.protobuf import protobuf_decoder

        return protobuf_decoder
    from databus.schema_registry.texts import json_schema_decoder

    return json_schema_decoder


_DECODERS: LRUCache[tuple[RegistrySettings, str, Make | None, int], Decode] = LRUCache(_KEPT)
_LOCK = Lock()
