"""The elasticsearch sink when servers turn items away, go down, or lose an answer."""

from __future__ import annotations

import socket
import threading

import pytest

from databus.core.errors import SinkAccessError, SinkBackpressureError, SinkUnavailableError
from databus.core.findings import Level
from tests.integration import search_target as given
from tests.integration.search_proxy import proxy
from tests.integration.search_target import change

pytestmark = pytest.mark.integration
connection, client, target = given.connection, given.client, given.target


def test_a_server_that_is_down_is_named(target, connection):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        nobody = connection.model_copy(update={"port": taken.getsockname()[1]})
        to = target(through=nobody, max_retries=1)
        with pytest.raises(SinkUnavailableError, match=r"127\.0\.0\.1") as down:
            to.prepare()
        with pytest.raises(SinkUnavailableError):
            to.write(change("c", 1, {"n": 1}))
        (finding,) = to.sink.preflight()
    assert down.value.retryable
    assert (finding.level, finding.code) == (Level.ERROR, "sink_unavailable")


def test_a_full_disk_block_is_waited_for_and_lifted(target, client):
    """The servers themselves answer 429 while the flood-stage block stands."""
    to = target(max_retries=10)
    to.prepare()
    block = {"index.blocks.read_only_allow_delete": True}
    client.indices.put_settings(index=to.index(), body=block)
    lift = threading.Timer(1.0, lambda: client.indices.put_settings(index=to.index(), body={next(iter(block)): None}))
    lift.start()
    receipt = to.write(change("c", 1, {"n": 1}))
    lift.join()
    assert receipt.written == 1
    assert receipt.outputs[""]["retries"] >= 1
    assert to.documents() == {"1": {"id": 1, "n": 1}}


def test_a_lasting_429_ends_in_backpressure(target, client):
    to = target(max_retries=1)
    to.prepare()
    client.indices.put_settings(index=to.index(), body={"index.blocks.read_only_allow_delete": True})
    with pytest.raises(SinkBackpressureError, match="429") as slow:
        to.write(change("c", 1, {"n": 1}))
    client.indices.put_settings(index=to.index(), body={"index.blocks.read_only_allow_delete": None})
    assert slow.value.retryable
    assert slow.value.retry_after_s > 0
    assert to.documents() == {}


def test_items_turned_away_are_sent_again_alone(target, connection):
    requests = []

    def first_time_every_second_is_turned_away(items, forward):
        requests.append(len(items))
        if len(requests) > 1:
            return forward(items)
        status, answer = forward(items[::2])
        turned_away = {"status": 429, "error": {"type": "es_rejected_execution_exception", "reason": "queue full"}}
        taken = iter(answer["items"])
        answer["items"] = [next(taken) if n % 2 == 0 else {"index": turned_away} for n in range(len(items))]
        return status, answer

    with proxy(connection, first_time_every_second_is_turned_away) as through:
        to = target(through=through)
        to.prepare()
        receipt = to.write(*(change("c", n, {"n": n}, 100 + n) for n in range(10)))
    assert requests == [10, 5]
    assert receipt.outputs == {to.index(): {"created": 10}, "": {"retries": 1}}
    assert len(to.documents()) == 10


def test_a_request_turned_away_as_a_whole_is_sent_again(target, connection):
    answers = iter([429, 503])

    def busy(items, forward):
        status = next(answers, None)
        error = {"type": "circuit_breaking_exception", "reason": "too much"}
        return (status, {"error": error, "status": status}) if status else forward(items)

    with proxy(connection, busy) as through:
        to = target(through=through)
        to.prepare()
        assert to.write(change("c", 1, {"n": 1})).outputs[""] == {"retries": 2}
    assert to.documents() == {"1": {"id": 1, "n": 1}}


def test_an_answer_that_is_lost_does_no_harm(target, connection):
    lost = iter([True])

    def forget_to_answer(items, forward):
        answered = forward(items)
        return (0, None) if next(lost, False) else answered

    with proxy(connection, forget_to_answer) as through:
        to = target(through=through)
        to.prepare()
        receipt = to.write(change("c", 1, {"n": 1}), change("d", 2, None, ordinal=1))
    assert receipt.outputs[to.index()] == {"updated": 1, "not_found": 1}
    assert to.documents() == {"1": {"id": 1, "n": 1}}


def test_a_request_too_large_is_halved_and_a_document_too_large_is_held_back(target, connection):
    def small(items, forward):
        too_large = len(b"".join(items)) > 1500
        return (413, {"error": "Request Entity Too Large"}) if too_large else forward(items)

    with proxy(connection, small) as through:
        to = target(through=through)
        to.prepare()
        changes = [change("c", n, {"n": n}, 100 + n) for n in range(40)]
        receipt = to.write(*changes, change("c", 99, {"text": "x" * 2000}, 900))
    assert len(to.documents()) == 40
    (rejected,) = receipt.rejected
    assert rejected.key == '{"id":99}'
    assert rejected.cause.startswith("request_entity_too_large")


@pytest.mark.parametrize("status", [401, 403])
def test_missing_rights_are_named_and_not_tried_again(target, connection, status):
    requests = []

    def closed(items, forward):
        requests.append(items)
        return status, {"error": {"type": "security_exception", "reason": "no permissions for [indices:data/write]"}}

    with proxy(connection, closed) as through:
        to = target(through=through)
        to.prepare()
        with pytest.raises(SinkAccessError, match="no permissions"):
            to.write(change("c", 1, {"n": 1}))
    assert len(requests) == 1
