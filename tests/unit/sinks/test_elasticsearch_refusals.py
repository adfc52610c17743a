"""Whether refused rows stop a batch, and what is known of an index that tells nothing."""

from __future__ import annotations

import logging
from types import SimpleNamespace
from typing import Any

import pytest
from opensearchpy.exceptions import AuthorizationException

from databus.core.batches.receipts import RejectedRow
from databus.core.errors import RecordRejectedError
from databus.sinks.elasticsearch.refusals import NeverWritten, Stopping


def row(number: int) -> RejectedRow:
    return RejectedRow(f"e{number}", "shop.orders", '{"id":7}', "mapper_parsing_exception: no", "search", "b:4", "{}")


REFUSED = {"orders": [row(1), row(2)], "items": [row(3)], "empty": []}


def test_only_rows_of_the_indices_named_stop_a_batch_unless_all_do() -> None:
    Stopping().require_taken(REFUSED, "here")
    Stopping(("empty", "others")).require_taken(REFUSED, "here")
    with pytest.raises(
        RecordRejectedError, match=r"here: 'orders', its first batch: sink search refused 2 rows"
    ) as new:
        Stopping(("orders", "empty")).require_taken(REFUSED, "here")
    assert "delete the index" in new.value.hint
    with pytest.raises(RecordRejectedError, match=r"here: 'items', 'orders', their first batch: .* 3 rows"):
        Stopping(("orders", "items")).require_taken(REFUSED, "here")
    with pytest.raises(RecordRejectedError, match=r"here: 'items', 'orders': .* 3 rows") as known:
        Stopping(("orders",), everywhere=True).require_taken(REFUSED, "here")
    assert "delete the index" not in known.value.hint  # one of them holds what was committed


def test_an_index_whose_statistics_may_not_be_read_is_taken_for_written_and_told_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    def stats(**_: Any) -> Any:
        raise AuthorizationException(403, "security_exception", {"error": {"type": "security_exception"}})

    client: Any = SimpleNamespace(indices=SimpleNamespace(stats=stats))
    known = NeverWritten(client, "search:9200")
    with caplog.at_level(logging.WARNING):
        assert known.among(["orders"], set()) == ()
        assert known.among(["orders"], set()) == ()
    (told,) = [record.getMessage() for record in caplog.records]
    assert told.startswith("search:9200: the login may not ask whether index 'orders' has ever held a document")
    assert known.among(["orders"], {"orders"}) == ("orders",)  # made just now: nobody need be asked
