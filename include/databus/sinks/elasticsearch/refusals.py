"""Rows that a server refuses: whether the batch stops for them, and which indices have never held a document."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from databus.core.batches.receipts import RejectedRow
from databus.core.batches.refusals import stopped
from databus.sinks.elasticsearch.client import translated

if TYPE_CHECKING:
    from opensearchpy import OpenSearch

log = logging.getLogger(__name__)

_NEW = (
    "Nothing is committed, and all documents of the index are this batch's. Set the sink's mapping so that it takes "
    'the rows and delete the index: it is made anew with that mapping. Or set on_reject="quarantine" for the sink: the '
    "same batch then goes on, and such rows are held back."
)
_KNOWN = (
    "Nothing is committed. Change the index's mapping so that it takes the rows: the same batch then goes on. Or set "
    'on_reject="quarantine" for the sink: it goes on as well, and such rows are held back.'
)


@dataclass(frozen=True)
class Stopping:
    """Stopping indices: where a refused row stops the batch.

    Attributes:
        first: indices of which this is the first batch.
        everywhere: whether it does so in all.
    """

    first: tuple[str, ...] = ()
    everywhere: bool = False

    def require_taken(self, refused: Mapping[str, Sequence[RejectedRow]], place: str) -> None:
        """Stop the batch where rows were refused.

        Args:
            refused: index → rows of the slot that the server refused.
            place: connection for messages.

        Raises:
            RecordRejectedError: names sink, indices, how many rows of each table, causes, and event ids; nothing that
                the rows hold.
        """
        indices = sorted(index for index, rows in refused.items() if rows and (self.everywhere or index in self.first))
        if not indices:
            return
        new = all(index in self.first for index in indices)
        names = ", ".join(repr(index) for index in indices)
        whose = "its first batch" if len(indices) == 1 else "their first batch"
        rows = [row for index in indices for row in refused[index]]
        raise stopped(rows, f"{place}: {names}{f', {whose}' if new else ''}", _NEW if new else _KNOWN)


@dataclass
class NeverWritten:
    """Indices that have never held a document, by the servers' statistics; what has held one is not asked for again.

    A document that was deleted counts, and so does the delete of one that was not there: each takes a number of the
    shard's sequence.

    Attributes:
        client: the client.
        place: connection for messages.
    """

    client: OpenSearch
    place: str
    _written: set[str] = field(default_factory=set)

    def among(self, indices: Sequence[str], made: set[str]) -> tuple[str, ...]:
        """Return those of the indices that never held a document, sorted.

        Args:
            indices: names of indices that are there.
            made: those of them that were made just now.

        Raises:
            SinkUnavailableError: no answer.
        """
        self._written -= made
        return tuple(sorted(index for index in indices if index in made or self._is_new(index)))

    def _is_new(self, index: str) -> bool:
        from opensearchpy.exceptions import AuthorizationException, OpenSearchException

        if index in self._written:
            return False
        wanted = {"level": "shards", "filter_path": "indices.*.shards.*.seq_no.max_seq_no"}
        try:
            answer = self.client.indices.stats(index=index, params=wanted)
        except AuthorizationException:
            log.warning(
                "%s: the login may not ask whether index %r has ever held a document (right monitor): rows that it "
                "refuses are held back, also of its first batch",
                self.place, index,
            )  # fmt: skip
            self._written.add(index)
            return False
        except OpenSearchException as error:
            raise translated(error, f"{self.place}: statistics of index {index!r}") from error
        copies = [
            copy["seq_no"]["max_seq_no"]
            for concrete in answer.get("indices", {}).values()
            for shard in concrete.get("shards", {}).values()
            for copy in shard
        ]
        new = bool(copies) and max(copies) < 0
        if not new:
            self._written.add(index)
        return new
