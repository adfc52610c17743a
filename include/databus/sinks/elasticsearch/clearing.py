"""Emptied tables: a TRUNCATE or DROP TABLE takes its table's documents out of the index, in its place in the log."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from databus.binlog.log.statements.statements import classify
from databus.core.batches.refusals import cause_class
from databus.core.errors.sink import SinkSettingError, SinkUnavailableError
from databus.core.events import Op
from databus.sinks.elasticsearch.bulk import Bulk, Outcome
from databus.sinks.elasticsearch.client import translated
from databus.sinks.elasticsearch.documents import DELETED_FIELD, RowWrite
from databus.sinks.elasticsearch.indices import Indices
from databus.sinks.elasticsearch.tally import DocumentTally

if TYPE_CHECKING:
    import pyarrow as pa
    from opensearchpy import OpenSearch

PAGE = 1_000
"""Documents looked at per request."""

_KEPT_OPEN = "10m"
_DIGEST = re.compile(r"[0-9a-f]{64}")
"""`_id` of a key that is too long for one: it does not name its table."""


@dataclass(frozen=True)
class EmptyingStatement:
    """A statement after which a table holds no rows.

    Attributes:
        index: name of the index that has the table's documents.
        table: `database.table`.
        version: external version of the statement.
        transaction: file and position of the statement's end.
        row: Arrow batch and row number in it.
    """

    index: str
    table: str
    version: int
    transaction: tuple[str, int]
    row: tuple[pa.RecordBatch, int]

    def __str__(self) -> str:
        return f"{self.table} is emptied at {self.transaction[0]}:{self.transaction[1]}"


def empties(op: str, statement: str | None) -> bool:
    """Return whether a TRUNCATE or definition statement leaves its table without rows."""
    return op == Op.TRUNCATE or classify(statement or "").empties


def tells_tables(index: str, ids: Literal["key", "table_key"] | None) -> bool:
    """Return whether a table's documents in an index can be found: by the index itself, or by their ids."""
    return ids != "key" or ("{database}" in index and "{table}" in index)


def lists_tables(index: str, ids: Literal["key", "table_key"] | None) -> bool:
    """Return whether an index is to list the tables that write to it: its name alone shows them, in lower case."""
    return ids == "key" and tells_tables(index, ids)


def refused(emptied: EmptyingStatement, place: str) -> SinkSettingError:
    """Return the error of a flow that is to stop at such a statement."""
    return SinkSettingError(
        f"{place}: {emptied}, and the flow is to stop at that",
        hint=f'Decide what becomes of the documents of index {emptied.index!r}: on_truncate="delete" takes them away, '
        '"ignore" leaves them.',
        code="sink_truncated",
    )


def untold(emptied: EmptyingStatement, place: str) -> SinkSettingError:
    """Return the error of an index whose documents do not name their table."""
    return SinkSettingError(
        f"{place}: {emptied}, and nothing in the documents of index {emptied.index!r} names their table",
        hint='Set ids="table_key", or put {database} and {table} into the index template, for a new index; or '
        'leave the documents, with on_truncate="ignore".',
        code="sink_truncate_untold",
    )


def ids_meet(sink: str, table: str) -> SinkSettingError:
    """Return the error for a table whose documents another table's may be taken for."""
    shorter = table[: table.index(":", table.index("."))]
    return SinkSettingError(
        f'sink {sink!r}: table {table} has a colon in its name, and with ids="table_key" its documents can have the '
        f"ids of documents of {shorter}",
        hint="Rename the table; or leave it out of the source (exclude_tables) or of this sink's routes, and give it a "
        'sink with an index of its own and ids="key".',
        code="sink_ids_meet",
    )


@dataclass(frozen=True)
class Clearing:
    """Takes documents away that are older than a statement; idempotent, and harmless when it comes late.

    The servers' own delete by query compares sequence numbers and leaves no version behind. So documents are listed and
    deleted by id under the statement's version: a newer one stays, and an older row that comes late is turned away.

    Attributes:
        client: the client.
        place: connection for messages.
        indices: the sink's indices.
        bulk: sends.
        tally: counts.
        ids: the sink's `ids`.
        soft: whether deleted documents stay as marks.
    """

    client: OpenSearch
    place: str
    indices: Indices
    bulk: Bulk
    tally: DocumentTally
    ids: Literal["key", "table_key"] | None
    soft: bool

    def clear(self, emptied: EmptyingStatement) -> None:
        """Take the table's documents away, once all rows before the statement are written.

        Raises:
            SinkSettingError: a document does not name its table, or the index takes no writes.
            SinkUnavailableError: no answer, or shards are missing.
            SinkAccessError: rights are missing.
        """
        if self.indices.standing(emptied.index, emptied.table) is None:
            return
        if self.ids == "key" and (others := self.indices.others_in(emptied.index, emptied.table)):
            raise SinkSettingError(
                f"{self.place}: {emptied}, and index {emptied.index!r} has documents of {', '.join(others)} too, whose "
                "ids do not name their table",
                hint="Names of indices are in lower case: give the tables indices of different names, or set "
                'ids="table_key", for new indices; or leave the documents, with on_truncate="ignore".',
                code="sink_truncate_untold",
            )
        counts: dict[str, int] = {}
        for page in self._pages(emptied):
            for result in self.bulk.send([write for hit in page if (write := self._write(hit, emptied)) is not None]):
                if result.outcome is Outcome.REJECTED:
                    raise SinkSettingError(
                        f"{self.place}: {emptied}, and a document of index {emptied.index!r} cannot be marked as "
                        f"deleted: {cause_class(result.cause)}",
                        hint=f"Let the index's mapping take {DELETED_FIELD} (boolean).",
                    )
                counts[result.outcome.value] = counts.get(result.outcome.value, 0) + 1
        self.tally.cleared(emptied.index, counts)
        self.indices.remember(emptied.index, emptied.table, emptied.version)

    def _pages(self, emptied: EmptyingStatement) -> Iterator[list[Mapping[str, Any]]]:
        from opensearchpy.exceptions import OpenSearchException

        index, scroll = emptied.index, ""
        wanted = [DELETED_FIELD, *self.indices.key_of(index)] if self.soft else False
        try:
            self.client.indices.refresh(index=index)
            answer = self.client.search(
                index=index,
                body={"size": PAGE, "sort": ["_doc"], "version": True, "_source": wanted},
                params={"scroll": _KEPT_OPEN, "allow_partial_search_results": "false"},
            )
            while answer["hits"]["hits"]:
                if answer["_shards"]["failed"]:
                    raise SinkUnavailableError(
                        f"{self.place}: listing index {index!r}: {answer['_shards']['failed']} shards failed",
                        hint="Look at the health of the index's shards.",
                    )
                scroll = answer["_scroll_id"]
                yield answer["hits"]["hits"]
                answer = self.client.scroll(body={"scroll_id": scroll, "scroll": _KEPT_OPEN})
            if scroll:
                self.client.clear_scroll(body={"scroll_id": [scroll]}, params={"ignore": 404})
        except OpenSearchException as error:
            raise translated(error, f"{self.place}: listing index {index!r}, since {emptied}") from error

    def _write(self, hit: Mapping[str, Any], emptied: EmptyingStatement) -> RowWrite | None:
        """Return what takes a document away; None for one that stays, or is marked as deleted already."""
        found = hit.get("_source") or {}
        if hit["_version"] >= emptied.version or found.get(DELETED_FIELD):
            return None
        if self.ids == "table_key" and not hit["_id"].startswith(f"{emptied.table}:"):
            if _DIGEST.fullmatch(hit["_id"]):
                raise SinkSettingError(
                    f"{self.place}: {emptied}, and document {hit['_id']!r} of index {emptied.index!r} does not name "
                    "its table: its id is the digest of a long key",
                    hint='Delete the table\'s documents by hand, and pass with on_truncate="ignore"; an index of its '
                    "own ({database} and {table} in the template) needs no such thing.",
                    code="sink_truncate_untold",
                )
            return None
        document = json.dumps({**found, DELETED_FIELD: True}, ensure_ascii=False) if self.soft else None
        return RowWrite(
            emptied.index, hit["_id"], emptied.version, document, emptied.table, emptied.transaction, emptied.row
        )
