"""Held documents: what indices have of each row, so that they can be compared with the source's tables.

An index is read by `_seq_no`, the number of each document's last write: a page can be asked for again, nothing is kept
open on the server, and a document that is written meanwhile comes once more. `_source` is compared as it was sent.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar
from urllib.parse import quote

from databus.core.connections import Connection
from databus.core.errors.sink import SinkAccessError, SinkError, SinkUnavailableError, ValidationRefusedError
from databus.core.events import Op
from databus.core.protocols.validated_sink import held_schema
from databus.sinks.elasticsearch.client import refused, where
from databus.sinks.elasticsearch.documents import DELETED_FIELD, document_id
from databus.sinks.elasticsearch.index_names import target_of
from databus.sinks.elasticsearch.lookup import LongAnswerError, NodeRequests
from databus.sinks.elasticsearch.spec import Elasticsearch
from databus.sinks.row_state import canonical, parsed
from databus.sinks.written_rows import cut_out

if TYPE_CHECKING:
    import pyarrow as pa

MOST_DOCUMENTS = 1_000
"""Documents asked for per request."""

_FIRST_DOCUMENTS = 100
_WANTED_BYTES = 4 << 20
MOST_BYTES = 64 << 20
"""A longer answer is not read to its end: fewer documents are asked for."""


def expected(spec: Elasticsearch, flow: str, encoded: pa.RecordBatch) -> pa.RecordBatch:
    """Return the documents that encoded rows leave, as `ROWS_HELD`; see `ValidatedSink.expected`.

    Raises:
        SinkSettingError: a table's index has no valid name.
    """
    import pyarrow as pa

    names = ("database", "table", "route", "key", "op", "document")
    outputs, keys, contents = [], [], []
    for database, table, route, key, op, document in zip(*(encoded[n].to_pylist() for n in names), strict=True):
        _, index, prefix = target_of(spec, flow, database, table, route)
        outputs.append(index)
        keys.append(None if key is None else document_id(key.decode(), prefix).encode())
        contents.append(None if op == Op.DELETE or document is None else document.encode())
    nothing = pa.nulls(len(outputs), pa.string())
    made = [pa.array(outputs, pa.string()), pa.array(keys, pa.binary()), pa.array(contents, pa.binary()), nothing]
    return pa.RecordBatch.from_arrays(made, schema=held_schema())


@dataclass
class HeldDocuments:
    """Documents of some indices; see `SinkState`.

    Attributes:
        connection: the resolved connection.
        indices: names; those that are not there hold nothing.
        soft: whether deleted documents stay as marks.
    """

    connection: Connection
    indices: Sequence[str]
    soft: bool
    of_one_moment: ClassVar[bool] = False
    _next: dict[str, int] = field(init=False, default_factory=dict)
    _nodes: NodeRequests = field(init=False)
    _place: str = field(init=False)

    def __post_init__(self) -> None:
        self._nodes, self._place = NodeRequests(self.connection), where(self.connection)

    def require_whole(self) -> None:
        """Refuse indices that do not keep documents as they were sent.

        Raises:
            ValidationRefusedError: names the index and the setting.
            SinkError: the server refuses, or does not answer.
        """
        for index in self.indices:
            found = self._asked(index, "_mapping?filter_path=*.mappings._source", "", "mapping")
            for concrete in (found or {}).values():
                said = concrete.get("mappings", {}).get("_source", {})
                self._refuse(index, {name: value for name, value in said.items() if value not in (True, "stored", [])})
            found = self._asked(index, "_settings?filter_path=*.settings.index.mapping.source", "", "settings")
            for concrete in (found or {}).values():
                said = concrete["settings"]["index"]["mapping"]["source"]
                self._refuse(index, {f"mode: {said['mode']}": ""} if said.get("mode", "stored") != "stored" else {})

    def rows(self) -> Iterator[pa.RecordBatch]:
        """See `SinkState.rows`."""
        for index in self.indices:
            if self._asked(index, "_refresh", "", "refresh") is not None:
                yield from self._pages(index, 0)

    def later(self) -> Iterator[pa.RecordBatch]:
        """See `SinkState.later`: last writings of documents, without deletions and what shards number lower."""
        for index, first in list(self._next.items()):
            if self._asked(index, "_refresh", "", "refresh") is not None:
                yield from self._pages(index, first)

    def look(self, keys: pa.RecordBatch) -> pa.RecordBatch:
        """See `SinkState.look`; read in real time."""
        wanted = list(zip(keys["output"].to_pylist(), keys["key"].to_pylist(), strict=True))
        of_index: dict[str, dict[str, None]] = {}
        for index, key in wanted:
            of_index.setdefault(index, {})[key.decode()] = None
        found = {
            (index, told["_id"].encode()): told
            for index, ids in of_index.items()
            for told in self._documents(index, list(ids))
        }
        return self._held([(index, key, found.get((index, key))) for index, key in wanted])

    def close(self) -> None:
        """See `SinkState.close`."""
        self._nodes.close()

    def _pages(self, index: str, first: int) -> Iterator[pa.RecordBatch]:
        """Yield an index's documents in the order of their last writes, from one number on.

        Documents of several shards may have one number: the last number of a page is asked for again unless the page
        is the last one.
        """
        size = _FIRST_DOCUMENTS
        path = "_search?allow_partial_search_results=false&preference=databus-validate"
        while True:
            body = {
                "size": size,
                "query": {"range": {"_seq_no": {"gte": first}}},
                "sort": [{"_seq_no": "asc"}],
                "seq_no_primary_term": True,
                "track_total_hits": False,
            }
            try:
                answer = self._asked(index, path, json.dumps(body), "documents", MOST_BYTES if size > 2 else None, 4)
            except LongAnswerError:
                size = max(2, size // 4)
                continue
            if answer is None:
                return
            if answer["_shards"]["failed"]:
                raise SinkUnavailableError(
                    f"{self._place}: documents of index {index!r}: {answer['_shards']['failed']} shards failed",
                    hint="Look at the health of the index's shards.",
                )
            hits = answer["hits"]["hits"]
            last = hits[-1]["_seq_no"] if hits else first - 1
            self._next[index] = last + 1
            taken = hits if len(hits) < size else [hit for hit in hits if hit["_seq_no"] < last]
            if taken:
                yield self._held([(index, hit["_id"].encode(), hit) for hit in taken])
            if len(hits) < size:
                return
            if not taken:  # more documents of one number, in as many shards, than a page holds
                size *= 2
                continue
            first, size = last, min(size * 2, MOST_DOCUMENTS, max(2, _WANTED_BYTES * size // answer["bytes"]))

    def _documents(self, index: str, ids: Sequence[str]) -> Iterator[dict[str, Any]]:
        """Yield those of the documents that are there."""
        size = MOST_DOCUMENTS
        while ids:
            asked = ids[:size]
            most = MOST_BYTES if len(asked) > 1 else None
            try:
                answer = self._asked(index, "_mget", json.dumps({"ids": list(asked)}), "documents", most, 3)
            except LongAnswerError:
                size = max(1, len(asked) // 4)
                continue
            for told in (answer or {"docs": ()})["docs"]:
                if "error" in told and "index_not_found" not in json.dumps(told["error"]):
                    raise refused(f"{self._place}: documents of index {index!r}", 200, told)
                if told.get("found"):
                    yield told
            ids = ids[len(asked) :]

    def _held(self, found: Sequence[tuple[str, bytes, Mapping[str, Any] | None]]) -> pa.RecordBatch:
        import pyarrow as pa

        contents, versions = [], []
        for index, _, told in found:
            there = told.get("_source") if told is not None else None
            if told is not None and there is None:
                raise self._unwhole(index, "no _source comes")
            contents.append(None if there is None or (self.soft and _is_mark(there)) else there)
            versions.append(None if told is None else f"{told['_primary_term']}.{told['_seq_no']}")
        made = [
            pa.array([index for index, _, _ in found], pa.string()),
            pa.array([key for _, key, _ in found], pa.binary()),
            pa.array(contents, pa.binary()),
            pa.array(versions, pa.string()),
        ]
        return pa.RecordBatch.from_arrays(made, schema=held_schema())

    def _asked(
        self, index: str, path: str, body: str, what: str, most_bytes: int | None = None, documents_at: int = 0
    ) -> Any:
        """Return the answer with its length as `bytes`; None where there is no such index.

        Each `_source` that stands `documents_at` brackets deep is the text of the document.
        """
        place = f"{self._place}: {what} of index {index!r}"
        status, text = self._nodes.ask(f"/{quote(index, safe='')}/{path}", body, place, most_bytes)
        try:
            rest, documents = cut_out(text, "_source", documents_at)
            answer = parsed(rest)
        except ValueError:
            if status == 200:
                raise SinkError(f"{place}: the answer is no JSON") from None
            answer = text.decode("utf-8", "replace")
        if status == 404:
            return None
        if status == 403:
            told = refused(place, status, answer)
            raise SinkAccessError(told.message, hint="Grant the login read, view_index_metadata and refresh on it.")
        if status != 200:
            raise refused(place, status, answer)
        if body and isinstance(answer, dict):
            answer["bytes"] = len(text)
            for told in answer.get("docs") or answer.get("hits", {}).get("hits", ()):
                if (found := told.get("_source")) is not None:
                    told["_source"] = documents[found] if isinstance(found, int) else canonical(found)
        return answer

    def _refuse(self, index: str, said: Mapping[str, Any]) -> None:
        if said:
            raise self._unwhole(index, "_source is set to " + ", ".join(f"{n} {v}".rstrip() for n, v in said.items()))

    def _unwhole(self, index: str, why: str) -> ValidationRefusedError:
        return ValidationRefusedError(
            f"{self._place}: index {index!r} does not keep documents as they were sent: {why}",
            hint="Only whole documents can be compared: validate a flow into an index whose _source has its defaults.",
        )


def _is_mark(document: bytes) -> bool:
    """Tell whether a document marks a deleted row."""
    return DELETED_FIELD.encode() in document and bool(parsed(document).get(DELETED_FIELD))
