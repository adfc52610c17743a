"""Bulk requests: what the server answers item by item, what is tried again, what is refused for good.

Answers follow the bulk API of OpenSearch 2 and Elasticsearch 8: one item per action, in order, each with a status.
"""

from __future__ import annotations

import enum
import logging
import random
import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from databus.core.errors.sink import (
    SinkAccessError,
    SinkBackpressureError,
    SinkConflictError,
    SinkSettingError,
    SinkUnavailableError,
)
from databus.rows.versions import RecordVersions, RowVersions
from databus.sinks.elasticsearch.client import reason_of, translated
from databus.sinks.elasticsearch.documents import RowWrite

if TYPE_CHECKING:
    from opensearchpy import OpenSearch
    from opensearchpy.exceptions import OpenSearchException

log = logging.getLogger(__name__)

FIRST_PAUSE_S = 0.2
LONGEST_PAUSE_S = 10.0
LEAST_BYTES = 64 << 10
_ANSWER = "items.*.status,items.*.result,items.*.error.type,items.*.error.reason,items.*.error.caused_by.reason"
_CURRENT_VERSION = re.compile(r"current version \[(\d+)\]")
_TURNED_AWAY = frozenset({429, 502, 503, 504})
_NOT_THE_DOCUMENT = frozenset({"invalid_index_name_exception", "index_closed_exception", "index_not_found_exception"})

_KEY_IN_PARTITIONS = (
    "Nothing was overwritten. The key came in several partitions of its topic, and offsets do not say which record is "
    "the newer one: the topic gained partitions, to a number that is no multiple of the former one (keys then move "
    "between the former ones too; let the flow catch up before a topic grows) or while some producers knew the former "
    'ones; its partitioner is not made of the key, or something else writes to the index. With profile="at_least_once" '
    "the document stays as it is until a newer record of its key comes; otherwise index the topic anew into an "
    "index of another name."
)


class Outcome(enum.StrEnum):
    """Bulk item outcome."""

    CREATED = "created"
    UPDATED = "updated"
    DELETED = "deleted"
    NOOP = "noop"
    NOT_FOUND = "not_found"
    CONFLICT_NEWER = "conflict_newer"
    REJECTED = "rejected"


@dataclass(frozen=True)
class ItemResult:
    """Bulk item result.

    Attributes:
        write: the item.
        outcome: what became of it.
        cause: "type: reason" of a rejected item, else "".
    """

    write: RowWrite
    outcome: Outcome
    cause: str = ""


@dataclass
class Bulk:
    """Sends writes until each has an end.

    Attributes:
        client: the client.
        place: connection for messages.
        refresh: the API's refresh.
        max_bytes: size of a request; a single larger document goes alone. Requests shrink while the server turns some
            away, and grow again.
        max_retries: further attempts for what was turned away.
        sleep: waits that many seconds.
        retries: attempts made beyond the first, so far.
        versions: give what the batch can have written; None where newer documents are to be expected.
        apart: least distance of the versions of two places of the source's log; 0 where that is not known.
    """

    client: OpenSearch
    place: str
    refresh: bool | str
    max_bytes: int
    max_retries: int
    sleep: Callable[[float], None] = time.sleep
    retries: int = 0
    versions: RowVersions | None = None
    apart: int = 0
    _bytes: int = field(init=False)

    def __post_init__(self) -> None:
        self._bytes = self.max_bytes

    def send(self, writes: Sequence[RowWrite]) -> Iterator[ItemResult]:
        """Yield each write's end; writes of one document must not stand in it twice.

        Repeating a request is harmless, whatever became of the first: versions decide.

        Raises:
            SinkBackpressureError: still turned away (429) after all retries.
            SinkUnavailableError: no answer, or still 5xx after all retries.
            SinkAccessError: rights are missing.
            SinkSettingError: the index does not take writes.
            SinkConflictError: a document is newer than the batch can have made it.
        """
        for request in self._requests(writes):
            before = self.retries
            yield from self._settled(request)
            if self.retries == before:
                self._bytes = min(self.max_bytes, self._bytes + self._bytes // 4)

    def _requests(self, writes: Sequence[RowWrite]) -> Iterator[list[tuple[RowWrite, bytes]]]:
        request: list[tuple[RowWrite, bytes]] = []
        size = 0
        for write in writes:
            lines = write.lines()
            if request and size + len(lines) > self._bytes:
                yield request
                request, size = [], 0
            request.append((write, lines))
            size += len(lines)
        if request:
            yield request

    def _settled(self, request: list[tuple[RowWrite, bytes]]) -> Iterator[ItemResult]:
        from opensearchpy.exceptions import OpenSearchException

        attempt = 0
        while request:
            again: list[tuple[RowWrite, bytes]] = []
            changed: list[tuple[RowWrite, bytes]] = []
            try:
                items = self._post(request)
            except OpenSearchException as error:
                if getattr(error, "status_code", None) == 413:
                    yield from self._halved(request)
                    return
                self._must_be_passing(error, attempt)
                again, reason = request, str(error)
            else:
                reason = ""
                for pair, item in zip(request, items, strict=True):
                    if self._changed_by_hand(pair[0], item):
                        changed.append((pair[0], pair[0].lines()))
                        continue
                    ended = self._ended(pair[0], item)
                    if ended is None:
                        again.append(pair)
                        reason = f"HTTP {item['status']}: {_kind_of(item)}"
                    else:
                        yield ended
                if again and attempt >= self.max_retries:
                    raise self._gave_up(again, items, reason)
                yield from self._settled(changed)
            if again:
                self._pause(attempt, len(again), reason)
                attempt += 1
            request = again

    def _post(self, request: list[tuple[RowWrite, bytes]]) -> list[Mapping[str, Any]]:
        params: dict[str, Any] = {"filter_path": _ANSWER}
        if self.refresh:
            params["refresh"] = "wait_for" if self.refresh == "wait_for" else "true"
        answer = self.client.bulk(body=b"".join(lines for _, lines in request), params=params)
        return [next(iter(item.values())) for item in answer["items"]]

    def _halved(self, request: list[tuple[RowWrite, bytes]]) -> Iterator[ItemResult]:
        if len(request) == 1:
            write, lines = request[0]
            cause = (
                f"request_entity_too_large: the server takes no request of {len(lines)} bytes (http.max_content_length)"
            )
            yield ItemResult(write, Outcome.REJECTED, cause)
            return
        middle = len(request) // 2
        yield from self._settled(request[:middle])
        yield from self._settled(request[middle:])

    def _must_be_passing(self, error: OpenSearchException, attempt: int) -> None:
        from opensearchpy.exceptions import ConnectionError as NoAnswerError

        passing = isinstance(error, NoAnswerError) or getattr(error, "status_code", None) in _TURNED_AWAY
        if passing and attempt < self.max_retries:
            return
        ended = translated(error, f"{self.place}: bulk request, attempt {attempt + 1}")
        if isinstance(ended, SinkBackpressureError):
            ended.retry_after_s = LONGEST_PAUSE_S
        raise ended from error

    def _pause(self, attempt: int, items: int, reason: str) -> None:
        self.retries += 1
        self._bytes = max(min(LEAST_BYTES, self.max_bytes), self._bytes // 2)
        # Full jitter: writers that were turned away together must not come back together.
        pause_s = random.uniform(0.5, 1.0) * min(LONGEST_PAUSE_S, FIRST_PAUSE_S * 2**attempt)  # noqa: S311 - not a secret
        log.warning("%s: %d items turned away, again in %.1f s: %s", self.place, items, pause_s, reason)
        self.sleep(pause_s)

    def _ended(self, write: RowWrite, item: Mapping[str, Any]) -> ItemResult | None:
        """Return the item's end, None when it has to be tried again."""
        status = item["status"]
        if status in _TURNED_AWAY:
            return None
        if status < 300 or (status == 404 and item.get("result") == "not_found"):
            return ItemResult(write, Outcome(item["result"]))
        kind, reason = _kind_of(item), reason_of(item)
        place = f"{self.place}: index {write.index!r}, row {write.event_id}: HTTP {status}: "
        if status == 409:
            # external_gte takes an equal version: a conflict means that a newer one is there. An earlier attempt of the
            # batch can have written it, unless it lies behind the batch's end.
            self._must_be_our_own(write, reason)
            return ItemResult(write, Outcome.CONFLICT_NEWER)
        if kind == "cluster_block_exception" or kind in _NOT_THE_DOCUMENT:
            raise SinkSettingError(
                place + reason, hint="The index takes no writes: look at its blocks (index.blocks.*) and state."
            )
        if status in (401, 403):
            raise SinkAccessError(place + reason, hint="Grant the login write on the index.")
        if status in (400, 413):
            return ItemResult(write, Outcome.REJECTED, reason)
        raise SinkUnavailableError(place + kind, hint="Look at the server's log.")

    def _changed_by_hand(self, write: RowWrite, item: Mapping[str, Any]) -> bool:
        """Give a snapshot's row the version of a document that somebody changed or deleted; False for any other item.

        Each change without a version adds one to it. So a document may be newer than the place that the flow stands at,
        where nothing was logged since, by less than two places of the log are apart: no row wrote it, and the row that
        was read stands. A later row has a greater version than both.
        """
        if item["status"] != 409 or not self.apart or not write.of_snapshot:
            return False
        stated = _CURRENT_VERSION.search(reason_of(item))
        if stated is None or not 0 < int(stated[1]) - write.version < self.apart:
            return False
        write.version = int(stated[1])
        return True

    def _must_be_our_own(self, write: RowWrite, reason: str) -> None:
        if self.versions is None:
            return
        stated = _CURRENT_VERSION.search(reason)
        if stated is None:
            log.warning(
                "%s: index %r, row %s: a conflict of which the server does not say the version",
                self.place, write.index, write.event_id,
            )  # fmt: skip
        elif why := self.versions.ahead(write.transaction, int(stated[1])):
            raise SinkConflictError(
                f"{self.place}: index {write.index!r}: the document of row {write.event_id} of {write.table} has "
                f"version {stated[1]}, the row at {write.transaction[0]}:{write.transaction[1]} has {write.version}, "
                f"and {why}",
                hint=hint_of(self.versions),
            )

    def _gave_up(
        self, again: Sequence[tuple[RowWrite, bytes]], items: Sequence[Mapping[str, Any]], reason: str
    ) -> SinkBackpressureError | SinkUnavailableError:
        text = f"{self.place}: {len(again)} of {len(items)} items turned away {self.max_retries + 1} times: {reason}"
        if any(item["status"] == 429 for item in items):
            full = SinkBackpressureError(text, hint="The server is overloaded; the batch is tried again after a pause.")
            full.retry_after_s = LONGEST_PAUSE_S
            return full
        return SinkUnavailableError(text, hint="Look at the health of the index's shards.")


def _kind_of(item: Mapping[str, Any]) -> str:
    """Return the error's type, "" without; the servers' reasons quote ids and documents."""
    return str(item.get("error", {}).get("type", ""))


def hint_of(versions: RowVersions) -> str | None:
    """Return what to do where nothing orders two rows of a document; None for what the error says."""
    return _KEY_IN_PARTITIONS if isinstance(versions, RecordVersions) else None
