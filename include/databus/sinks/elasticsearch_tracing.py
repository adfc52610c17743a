"""Finding documents: a document's version is the place in the log of the change that it shows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from databus.core.trace import Change, Sighting, Sought, TraceExpiredError, TraceNotRecordedError
from databus.sinks.elasticsearch_client import translated
from databus.sinks.elasticsearch_document import DELETED_FIELD, document_id
from databus.sinks.elasticsearch_version import FILE_BITS, POSITION_BITS

if TYPE_CHECKING:
    from opensearchpy import OpenSearch


def place_of(version: int) -> tuple[int, int, int]:
    """Return (timeline, file number, position) of what `source_version` made."""
    position = version & ((1 << POSITION_BITS) - 1)
    return version >> (FILE_BITS + POSITION_BITS), (version >> POSITION_BITS) & ((1 << FILE_BITS) - 1), position


class DocumentReader:
    """Reads single documents, in real time (no refresh is needed for a get by id).

    Args:
        sink: sink name.
        client: the client.
        where: connection for messages.
        shared: ids carry the table.
    """

    def __init__(self, sink: str, client: OpenSearch, where: str, *, shared: bool) -> None:
        self._sink, self._client, self._where, self._shared = sink, client, where, shared

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

    def sightings(self, outputs: Mapping[str, Mapping[str, Any]], sought: Sought) -> list[Sighting]:
        """See `TraceableSink.sightings`; a document shows the newest change of its key only."""
        if sought.key is None:
            return []
        table = sought.table if self._shared else ""
        identifier = document_id(sought.key, table)
        found = (self._get(index, identifier) for index in sorted(outputs) if index)
        return [sighting for sighting in found if sighting is not None]

    def newest(self, outputs: Sequence[str], key: str, table: str) -> list[Sighting]:
        """See `TraceableSink.newest`."""
        return self.sightings({name: {} for name in outputs}, Sought(key=key, table=table))

    def _get(self, index: str, identifier: str) -> Sighting | None:
        from opensearchpy.exceptions import NotFoundError, OpenSearchException

        try:
            answer = self._client.get(index=index, id=identifier)
        except NotFoundError:
            return None
        except OpenSearchException as error:
            raise translated(error, f"{self._where}: reading {index}/{identifier}") from error
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
