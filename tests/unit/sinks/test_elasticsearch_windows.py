"""Windows: each document once, newest row last, never cut inside a transaction; refusals fall back."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from databus.core.batches.counts import SinkCounts
from databus.core.errors import SinkAccessError, SinkConflictError, SinkSettingError, SinkUnavailableError
from databus.sinks.elasticsearch.bulk import Bulk, ItemResult, Outcome
from databus.sinks.elasticsearch.documents import RowWrite
from databus.sinks.elasticsearch.partial_rows import cut
from databus.sinks.elasticsearch.tally import DocumentTally
from databus.sinks.elasticsearch.writer import deliver, windows


class Batch:
    """Just enough of an Arrow batch for a rejected row."""

    def __init__(self, op="u"):
        self.op = op

    def column(self, name):
        values = {"event_id": f"e-{name}", "key": b'{"id":1}', "op": self.op, "document": '{"n":"x"}', "before": None}
        return [Scalar(values[name])]


class Scalar:
    def __init__(self, value):
        self.value = value

    def as_py(self):
        return self.value


def write(id_, position, document="{}"):
    return RowWrite("i", id_, position, document, "d.t", ("f", position), (Batch(), 0))


def test_only_the_newest_row_of_a_document_stands_in_a_window():
    rows = [write("1", 10, '{"n":1}'), write("2", 10), write("1", 20, None), write("1", 20, '{"n":3}')]
    (window,) = windows(rows, 1 << 20)
    assert [(w.id, w.version, w.document) for w in window] == [("2", 10, "{}"), ("1", 20, '{"n":3}')]
    assert window[1].superseded is rows[2]
    assert rows[2].superseded is rows[0]


def test_a_window_is_cut_between_transactions_only():
    rows = [write(str(n), 10) for n in range(5)] + [write("0", 20), write("9", 30)]
    cut = [[w.version for w in window] for window in windows(rows, 1)]
    assert cut == [[10] * 5, [20], [30]]


def test_rows_of_a_snapshot_are_cut_anywhere():
    read = [RowWrite("i", str(n), 10, "{}", "d.t", ("f", 10), (Batch("r"), 0)) for n in range(3)]
    rows = [*read, write("7", 20), write("8", 20)]
    cut = [[w.id for w in window] for window in windows(rows, 1)]
    assert cut == [["0"], ["1"], ["2"], ["7", "8"]]


class RefusingBulk:
    """Refuses the documents it is told to."""

    def __init__(self, refused):
        self.refused = refused
        self.sent = []

    def send(self, writes):
        for w in writes:
            self.sent.append(w.document)
            bad = w.document in self.refused
            yield ItemResult(w, Outcome.REJECTED if bad else Outcome.UPDATED, "mapper: no" if bad else "")


def test_a_refused_row_leaves_the_newest_row_the_server_takes():
    tally = DocumentTally("search")
    rows = [write("1", 10, "good"), write("1", 20, "bad"), write("1", 30, "worse"), write("2", 30, "other")]
    for _ in rows:
        tally.read("d.t")
    bulk = RefusingBulk({"bad", "worse"})
    for window in windows(rows, 1 << 20):
        deliver(window, bulk, tally)
    receipt = tally.receipt(0, 5, 0)
    assert bulk.sent == ["worse", "other", "bad", "good"]
    assert receipt.rows == {"d.t": 2}
    assert receipt.written == 2
    assert len(receipt.rejected) == 2
    assert receipt.outputs == {"i": {"rejected": 2, "updated": 2}}
    assert receipt.rejected[0].position == "f:30"
    assert receipt.rejected[0].payload == '{"op":"u","before":null,"after":{"n":"x"}}'


def test_superseded_rows_count_as_dispatched():
    tally = DocumentTally("search")
    rows = [write("1", 10), write("1", 20), write("1", 30)]
    for _ in rows:
        tally.read("d.t")
    for window in windows(rows, 1 << 20):
        deliver(window, RefusingBulk(()), tally)
    receipt = tally.receipt(0, 5, 2)
    assert receipt.rows == {"d.t": 3}
    assert receipt.written == 1
    assert receipt.outputs == {"i": {"updated": 1, "superseded": 2}, "": {"retries": 2}}


def test_a_statement_is_among_the_rows_and_told_apart_from_documents():
    tally = DocumentTally("search")
    for _ in range(2):
        tally.read("d.t")
    tally.statement("d.t")
    for window in windows([write("1", 10), write("2", 10)], 1 << 20):
        deliver(window, RefusingBulk(()), tally)
    receipt = tally.receipt(0, 5, 3)
    assert receipt.rows == {"d.t": 3}  # what the batch's counts are compared with
    assert receipt.outputs == {"i": {"updated": 2}, "": {"retries": 3, "statements": 1}}
    assert SinkCounts.of(receipt.rows, 0, receipt.outputs) == SinkCounts(dispatched=2, statements=1)


def test_of_two_logs_the_row_with_the_greater_version_wins_wherever_it_stands():
    rows = [write("1", 30, "newest"), write("1", 10, "oldest"), write("1", 20, "older"), write("1", 20, "old")]
    (window,) = windows(rows, 1 << 20)
    (chain,) = window
    seen = []
    while chain is not None:
        seen.append(chain.document)
        chain = chain.superseded
    assert seen == ["newest", "old", "older", "oldest"]


def test_messages_name_rows_by_event_and_place_and_not_by_key():
    row = write("ada@x.org", 10)
    bulk = Bulk(None, "search:9200", False, 1 << 20, 2)
    refusals = [
        (403, "security_exception", SinkAccessError),
        (500, "exception", SinkUnavailableError),
        (400, "index_closed_exception", SinkSettingError),
    ]
    for status, kind, error in refusals:
        item = {"status": status, "error": {"type": kind, "reason": "closed"}}
        if status == 500:  # what else a server says may quote the document
            item["error"]["reason"] = "index {[i][ada@x.org], source[{}]}"
        with pytest.raises(error) as raised:
            bulk._ended(row, item)
        assert f"index 'i', row e-event_id: HTTP {status}: " in raised.value.message
        assert "ada" not in str(raised.value)
    versions = SimpleNamespace(unordered=lambda *_: True, hint=None)
    with pytest.raises(SinkConflictError, match=r"one key of d\.t: rows at f:10 and f:20") as raised:
        list(windows([row, write("ada@x.org", 20)], 1 << 20, versions))
    assert "ada" not in str(raised.value)
    with pytest.raises(SinkSettingError, match=r"row e1 of d\.t at f:10: the key changed, and the after-image lacks n"):
        cut("fail", ["n"], "row e1 of d.t at f:10", '{"id":"ada@x.org"}')
