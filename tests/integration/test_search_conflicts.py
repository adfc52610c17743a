"""A document that is newer than its batch is an error of a live batch, and expected where rows are moved again."""

from __future__ import annotations

import pytest

from databus.core.errors import ConfigError, SinkConflictError
from databus.sinks.elasticsearch.spec import FAST_BULK_BYTES, Elasticsearch
from tests.integration import search_target as given
from tests.integration.search_proxy import proxy
from tests.integration.search_target import arrow, change, plan

pytestmark = pytest.mark.integration
connection, client, target = given.connection, given.client, given.target

FILE = "bin.000009"


def row(op, pos, n=None):
    return change(op, 1, None if n is None else {"n": n}, pos, file=FILE)


@pytest.mark.parametrize("newer", [row("u", 900, 9), row("d", 900)])
def test_a_row_from_behind_the_batch_is_an_error_and_stays(target, newer):
    """As after a checkpoint was restored from an older copy: what the sink holds is ahead of it."""
    to = target()
    to.prepare()
    to.write(row("c", 100, 1), newer, end=1000)
    before = to.documents()
    told = rf"document of row server:{FILE}:200:0:0 of shop\.Orders has version \d+, the row at {FILE}:200 has "
    with pytest.raises(SinkConflictError, match=told) as caught:
        to.write(row("u", 200, 2), end=300)
    assert (caught.value.code, caught.value.retryable) == ("sink_conflict", False)
    assert "restored" in caught.value.hint
    assert to.documents() == before


def test_a_conflict_is_told_without_the_rows_key(target):
    to = target()
    to.prepare()
    to.write(change("c", "ada@x.org", {"n": 1}, 900, file=FILE), end=1000)
    with pytest.raises(SinkConflictError) as caught:
        to.write(change("u", "ada@x.org", {"n": 2}, 200, file=FILE), end=300)
    assert "ada" not in str(caught.value)


def test_what_an_earlier_attempt_of_the_batch_wrote_is_none(target):
    """The first attempt got as far as position 250 and was killed; the second begins with position 200."""
    to = target()
    to.prepare()
    to.write(row("u", 250, 2), end=300)
    receipt = to.write(row("u", 200, 1), end=300)
    assert receipt.outputs == {to.index(): {"conflict_newer": 1}}
    assert to.documents() == {"1": {"id": 1, "n": 2}}
    # The end of the range is the last row's own place.
    assert to.write(row("u", 300, 3), end=300).written == 1
    assert to.write(row("u", 200, 1), end=300).outputs == {to.index(): {"conflict_newer": 1}}


@pytest.mark.parametrize("how", [{"mode": "replay"}, {"profile": "at_least_once"}, {"profile": "throughput_first"}])
def test_rows_that_are_moved_again_may_be_older(target, how):
    to = target(**({"profile": how["profile"]} if "profile" in how else {}))
    to.prepare()
    to.write(row("u", 900, 9), end=1000)
    planned = {"mode": how["mode"]} if "mode" in how else {}
    assert to.write(row("c", 100, 1), end=300, **planned).outputs == {to.index(): {"conflict_newer": 1}}
    assert to.documents() == {"1": {"id": 1, "n": 9}}


def test_a_late_replay_brings_no_deleted_document_back(target, client):
    """The server has forgotten its deletes (gc_deletes 0): the tombstone has not."""
    to = target(gc_deletes="0s", soft_deletes=True)
    to.prepare()
    to.write(row("c", 100, 1), end=150)
    to.write(row("d", 200), end=250)
    client.indices.refresh(index=to.index())
    client.indices.forcemerge(index=to.index(), params={"max_num_segments": 1})
    late = to.write(row("c", 100, 1), end=150, mode="replay")
    assert late.outputs == {to.index(): {"conflict_newer": 1}}
    assert to.documents() == {"1": {"id": 1, "__deleted": True}}


def test_an_answer_lost_after_the_rows_were_applied_is_harmless(target, connection):
    """The rows are sent again at once, and once more by a second attempt: no conflict, the same documents."""
    lost = iter([True])

    def forget_to_answer(items, forward):
        answered = forward(items)
        return (0, None) if next(lost, False) else answered

    rows = (row("c", 100, 1), change("c", 2, {"n": 2}, 110, file=FILE), change("d", 2, None, 120, file=FILE))
    with proxy(connection, forget_to_answer) as through:
        to = target(through=through)
        to.prepare()
        receipt = to.write(*rows, end=300)
        assert "conflict_newer" not in receipt.outputs[to.index()]
        assert to.write(*rows, end=300).outputs[to.index()].get("conflict_newer", 0) == 0
        assert to.documents() == {"1": {"id": 1, "n": 1}}


def test_requests_shrink_while_the_server_turns_some_away(target, connection):
    sizes = []

    def busy_at_first(items, forward):
        sizes.append(len(b"".join(items)))
        if len(sizes) <= 2:
            return 429, {"error": {"type": "es_rejected_execution_exception", "reason": "queue full"}, "status": 429}
        return forward(items)

    with proxy(connection, busy_at_first) as through:
        to = target(through=through, bulk_bytes=256 << 10)
        to.prepare()
        rows = [change("c", n, {"text": "x" * 1000}, 100 + n, file=FILE) for n in range(800)]
        assert to.write(*rows, end=1000).written == 800
    assert sizes[0] == sizes[1] == sizes[2] > 200 << 10
    assert sizes[3] <= 80 << 10
    assert sizes[4] > sizes[3]


def test_profiles_are_refused_where_they_make_no_sense():
    with pytest.raises(ConfigError, match="throughput_first"):
        Elasticsearch(conn_id="search", profile="throughput_first", refresh=True)
    with pytest.raises(ConfigError, match="profile"):
        Elasticsearch(conn_id="search", profile="at_most_once")
    assert Elasticsearch(conn_id="search", profile="throughput_first").request_bytes == FAST_BULK_BYTES


def test_preflight_says_what_is_promised(target):
    to = target(profile="at_least_once")
    found = {f.subject.rpartition(": ")[2]: f.message for f in to.sink.preflight()}
    assert found["profile"].startswith("at_least_once: ")


def test_a_slow_server_does_not_make_the_writer_read_ahead(target, connection):
    """What is read and not yet answered stays at about one request, however many rows are to come."""
    batches, rows_each, row_bytes, window = 60, 100, 1000, 64 << 10
    read, answered, ahead = [0], [0], []

    def slow(items, forward):
        ahead.append(read[0] - answered[0])
        answer = forward(items)
        answered[0] += len(items)
        return answer

    def rows():
        for number in range(batches):
            first = number * rows_each
            read[0] += rows_each
            yield arrow(
                [change("c", n, {"t": "x" * row_bytes}, 100 + n, file=FILE) for n in range(first, first + rows_each)]
            )

    with proxy(connection, slow) as through:
        to = target(through=through, bulk_bytes=window)
        to.prepare()
        assert to.sink.writer(plan(end=10_000)).write(rows(), 0).written == batches * rows_each
    most = window // row_bytes + 2 * rows_each
    assert len(ahead) > 50
    assert max(ahead) <= most, (max(ahead), most)
