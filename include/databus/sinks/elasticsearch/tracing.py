"""Finding documents: a document's version is the place in the log of the change that it shows."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from databus.core.connections import Connection
from databus.core.trace import Change, ChangeSelector, RowImages, Sighting, TraceExpiredError, TraceNotRecordedError
from databus.rows.versions import FILE_BITS, POSITION_BITS
from databus.sinks.elasticsearch.client import where
from databus.sinks.elasticsearch.documents import DELETED_FIELD, document_id
from databus.sinks.elasticsearch.lookup import DocumentLookup


def place_of(version: int) -> tuple[int, int, int]:
    """Return (timeline, file number, position) of what `source_version` made."""
    position = version & ((1 << POSITION_BITS) - 1)
    return version >> (FILE_BITS + POSITION_BITS), (version >> POSITION_BITS) & ((1 << FILE_BITS) - 1), position


class DocumentReader:
    """Reads single documents, in real time (no refresh is needed for a get by id), each once.

    Args:
        sink: sink name.
        connection: the resolved connection.
        shared: ids carry the table.
    """

    def __init__(self, sink: str, connection: Connection, *, shared: bool) -> None:
        self._sink, self._where, self._shared = sink, where(connection), shared
        self._lookup = DocumentLookup(connection)
        self._read: dict[tuple[str, str], Mapping[str, Any] | None] = {}

    def close(self) -> None:
        """Close the connection; safe to call twice."""
        self._lookup.close()

    def sighting(self, place: str) -> Sighting:
        """See `TraceableSink.sighting`."""
        index, _, identifier = place.partition("/")
        found = self._get(index, identifier)
        if found is None:
            raise TraceExpiredError(
                f"{self._where}: index {index} has no document {identifier}",
                hint="It was deleted, or never was: a deleted document leaves nothing to look at. Trace its key.",
            )
        return found

    def images(self, place: str) -> RowImages:
        """See `ImageSink.images`; a document shows the row as it is now."""
        index, _, identifier = place.partition("/")
        self.sighting(place)  # of something else's documents nothing is shown
        source = (self._read[index, identifier] or {}).get("_source") or {}
        note = "the row as it is now: a search index keeps no earlier one"
        return RowImages(after={name: value for name, value in source.items() if name != DELETED_FIELD}, note=note)

    def sightings(self, outputs: Mapping[str, Mapping[str, Any]], selector: ChangeSelector) -> list[Sighting]:
        """See `TraceableSink.sightings`; a document shows the newest change of its key only."""
        if selector.key is None:
            return []
        identifier = self._id(selector.key, selector.table)
        found = (self._get(index, identifier) for index in sorted(outputs) if index)
        return [sighting for sighting in found if sighting is not None]

    def newest(self, outputs: Sequence[str], key: str, table: str) -> list[Sighting]:
        """See `TraceableSink.newest`."""
        return self.sightings({name: {} for name in outputs}, ChangeSelector(key=key, table=table))

    def expect(self, outputs: Iterable[str], rows: Iterable[tuple[str, str]]) -> None:
        """See `TraceableSink.expect`."""
        ids = sorted({self._id(key, table) for key, table in rows})
        for index in outputs:
            self._fetch(index, [identifier for identifier in ids if (index, identifier) not in self._read])

    def _id(self, key: str, table: str) -> str:
        return document_id(key, table if self._shared else "")

    def _fetch(self, index: str, ids: Sequence[str]) -> None:
        found = self._lookup.get(index, ids)
        self._read |= {(index, identifier): found.get(identifier) for identifier in ids}

    def _get(self, index: str, identifier: str) -> Sighting | None:
        if (index, identifier) not in self._read:
            self._fetch(index, [identifier])
        answer = self._read[index, identifier]
        if answer is None:
            return None
        version = answer["_version"]
        timeline, number, position = place_of(version)
        if not number:
            raise TraceNotRecordedError(
                f"{self._where}: {index}/{identifier} has version {version}, which is no place of a log",
                hint="Something else wrote it.",
            )
        deleted = bool((answer.get("_source") or {}).get(DELETED_FIELD))
        state = f"version {version}: timeline {timeline}, log file {number}, position {position}"
        change = Change(file=f".{number:06d}", position=position, op="d" if deleted else "")
        return Sighting(self._sink, "document", f"{index}/{identifier}", change, state=state)
