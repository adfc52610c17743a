"""Handlers: what is called, and what becomes of errors."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from databus.consumer import Change, Changes, Handlers, Transaction
from databus.core.errors import ConfigError, PackageMissingError
from tests.unit.consumer.test_rows import change


class Given:
    """Gives changes or transactions as a consumer does; a rewind goes back to the first that was not stored."""

    def __init__(self, *items: Any, stored: int = 0):
        self.items, self.at, self.rewound = items, 0, stored

    def __iter__(self) -> Iterator[Any]:
        while self.at < len(self.items):
            self.at += 1
            yield self.items[self.at - 1]

    transactions = __iter__

    def rewind(self) -> None:
        self.at = self.rewound


def three() -> list[Change]:
    return [change(table="shop.a"), change("d", table="shop.b", offset=1), change("u", table="crm.c", offset=2)]


def test_functions_are_called_by_table_and_operation_in_order() -> None:
    handlers, came = Handlers(), []

    @handlers.on("shop.*")
    def of_shop(c: Change) -> None:
        came.append(("shop", c.offset))

    @handlers.on(ops="du")
    def gone(c: Change) -> None:
        came.append(("du", c.offset))

    handlers.run(Given(*three()))
    assert came == [("shop", 0), ("shop", 1), ("du", 1), ("du", 2)]
    assert (handlers.handled, handlers.skipped) == (3, 0)


def test_transactions_begin_and_end() -> None:
    handlers, came = Handlers(), []
    handlers.begin(lambda t: came.append(("begin", t.id)))
    handlers.on()(lambda c: came.append(("change", c.offset)))
    handlers.end(lambda t: came.append(("end", t.id)))
    handlers.run(Given(Transaction("t1", three()[:2], complete=True), Transaction("t2", three()[2:], complete=True)))
    assert came == [
        ("begin", "t1"), ("change", 0), ("change", 1), ("end", "t1"), ("begin", "t2"), ("change", 2), ("end", "t2"),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("decisions", "came"),
    [
        ([], [0, 1, 2]),
        (["retry", "retry"], [0, 1, 1, 1, 2]),
        (["skip"], [0, 1, 2]),
        (["rollback"], [0, 1, 0, 1, 2]),
    ],
)
def test_an_error_is_retried_skipped_or_rolled_back(
    decisions: list[str], came: list[int], caplog: pytest.LogCaptureFixture
) -> None:
    handlers, found, left = Handlers(wait_s=0.001), [], list(decisions)

    @handlers.on()
    def fails(c: Change) -> None:
        found.append(c.offset)
        if c.offset == 1 and left:
            raise OSError("the database is away")

    @handlers.error
    def decide(error: Exception, subject: Any) -> str:
        assert (str(error), subject.offset) == ("the database is away", 1)
        return left.pop(0)

    handlers.run(Given(*three()))
    assert found == came
    assert handlers.skipped == decisions.count("skip")
    assert ("skipped" in caplog.text) == ("skip" in decisions)


def test_without_a_decision_it_stops() -> None:
    for answer in (None, "stop", "what"):
        handlers = Handlers()
        handlers.on("shop.b")(lambda c: c.before["id"])
        if answer:
            handlers.error(lambda error, subject, answer=answer: answer)
        with pytest.raises(TypeError):
            handlers.run(Given(*three()))
    with pytest.raises(ConfigError, match="one function of errors"):
        handlers.error(lambda error, subject: "skip")


def test_a_rollback_in_a_transaction_leaves_its_rest_out() -> None:
    handlers, found, left = Handlers(wait_s=0), [], ["rollback"]

    @handlers.on()
    def fails(c: Change) -> None:
        found.append(c.offset)
        if c.offset == 1 and left:
            raise OSError

    handlers.end(lambda t: found.append("end"))
    handlers.error(lambda error, subject: left.pop())
    handlers.run(Given(Transaction("t", three(), complete=True)))
    assert found == [0, 1, 0, 1, 2, "end"]


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ({"topics": ()}, "needs a cluster and topics"),
        ({"share": (2, 2)}, "from 0 to n - 1"),
        ({"start": "now"}, 'start is "committed"'),
        ({"ack_by": "me"}, 'ack_by is "loop" or "explicit"'),
        ({"client": {"isolation.level": "read_uncommitted"}}, "client: isolation.level"),
        ({"client": {"group.id": "x"}}, "client: group.id"),
        ({"client": {"sasl.password": "x"}}, "belongs into the connection"),
    ],
)
def test_options_that_do_not_go_are_named(options: dict[str, Any], why: str) -> None:
    with pytest.raises(ConfigError, match=why):
        Changes(**{"cluster": "k:9092", "topics": "t", **options})


def test_transactions_need_their_topic_and_all_partitions() -> None:
    for options in ({}, {"transaction_topic": "x", "share": (0, 2)}):
        with pytest.raises(ConfigError, match="needs transaction_topic, and all partitions"):
            next(Changes("k:9092", "t", **options).transactions())


def test_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("databus.core.packages._is_there", lambda name: False)
    with pytest.raises(PackageMissingError, match=r"databus\.consumer needs confluent-kafka") as told:
        Changes("k:9092", "t")
    assert "pip install 'databus[consumer]'" in told.value.hint
