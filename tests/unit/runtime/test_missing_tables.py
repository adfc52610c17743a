"""Tables that go while a flow runs: looked for seldom, at once where the log tells, and told once."""

from __future__ import annotations

import logging
from collections.abc import Sequence

import pytest

from databus import Flow, Kafka, KafkaTopics, MysqlBinlog
from databus.core.errors import SourceUnavailableError
from databus.core.positions.offsets import KafkaOffsets, Offset
from databus.core.tables.wanted import TablesNow
from databus.runtime.tables.missing_tables import MissingTables, really_gone
from databus.sources.mock.source import MockSource
from databus.sources.mock.spec import Mock

FLOW = Flow(name="f", source=MysqlBinlog(conn_id="m", tables=("shop.a", "shop.b_*")), sinks=(Kafka(conn_id="k"),))
PLACE = KafkaOffsets({})


class Told(MockSource):
    """A source that says which tables are gone, and whether the log told of some."""

    def __init__(self) -> None:
        super().__init__(Mock(rows=0))
        self.gone: tuple[str, ...] = ()
        self.ddl, self.asked, self.away = False, 0, False

    def tables_now(self) -> TablesNow:
        raise AssertionError("a look asks for names alone")

    def tables_gone(self, standing: Offset | None = None) -> Sequence[str]:
        self.asked += 1
        self.ddl = False
        if self.away:
            raise SourceUnavailableError("away")
        return self.gone

    def tables_may_be_gone(self) -> bool:
        return self.ddl


def test_an_hour_of_batches_looks_once_a_minute_and_a_statement_is_followed_at_once() -> None:
    source, now = Told(), [0.0]
    missing = MissingTables(FLOW, source, lambda: now[0])
    missing.begin(3600)
    for tick in range(36_000):
        now[0] = tick / 10
        missing.look_when_due(PLACE)
    assert source.asked == 59
    source.ddl = True
    missing.look_when_due(PLACE)
    assert source.asked == 60
    # A migration of many tables is no reason to ask after each batch.
    for tick in range(20):
        now[0] += 0.25
        source.ddl = True
        missing.look_when_due(PLACE)
        assert source.asked == 60 + (tick + 1) // 4


def test_a_window_as_short_as_airflows_looks_in_its_middle() -> None:
    source, now = Told(), [0.0]
    missing = MissingTables(FLOW, source, lambda: now[0])
    missing.begin(50)
    missing.look_when_due(PLACE)
    now[0] = 25.0
    missing.look_when_due(PLACE)
    assert source.asked == 1


def test_what_is_gone_is_told_once_and_so_is_what_comes_back(caplog: pytest.LogCaptureFixture) -> None:
    source = Told()
    missing = MissingTables(FLOW, source)
    source.gone = ("shop.a", "shop.b_*")
    with caplog.at_level(logging.INFO):
        missing.look(PLACE)
        missing.look(PLACE)
        table, pattern = (record.getMessage() for record in caplog.records)
        assert "table shop.a is gone (dropped, renamed" in table
        assert "no table matches shop.b_*" in pattern
        assert missing.names == ("shop.a", "shop.b_*")
        source.gone = ("shop.a",)
        missing.look(PLACE)
    assert caplog.records[-1].getMessage() == "flow f: shop.b_* is there now"
    assert missing.names == ("shop.a",)


def test_what_preflight_told_is_not_told_again(caplog: pytest.LogCaptureFixture) -> None:
    source = Told()
    source.gone = ("shop.b_*",)
    missing = MissingTables(FLOW, source)
    missing.known(source.gone)
    missing.look(PLACE)
    assert not caplog.records
    assert missing.names == source.gone


def test_a_source_that_does_not_answer_or_cannot_tell_fails_nothing(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)  # another test of the process may have left the root at DEBUG
    source = Told()
    source.away, source.gone = True, ("shop.a",)
    missing = MissingTables(FLOW, source)
    missing.look(PLACE)
    MissingTables(FLOW, MockSource(Mock(rows=0))).look(PLACE)
    assert not caplog.records
    assert missing.names == ()


def test_topics_are_called_topics(caplog: pytest.LogCaptureFixture) -> None:
    source = Told()
    source.gone = ("orders", "re:shop[.].*")
    flow = FLOW.model_copy(update={"source": KafkaTopics(conn_id="k", topics=source.gone)})
    MissingTables(flow, source).look(PLACE)
    assert "topic orders is gone" in caplog.text
    assert "no topic matches re:shop[.].*" in caplog.text


@pytest.mark.parametrize("later", ["fail", "wait"])
def test_what_may_still_come_is_not_gone_and_a_topic_that_was_read_is(later: str) -> None:
    sinks, source = (Kafka(conn_id="k"),), Told()
    source.gone = ("t", "p.*", "p.read")
    topics = Flow(
        name="f",
        source=KafkaTopics(conn_id="s", topics=("t", "p.*"), on_missing_topic=later),  # type: ignore[arg-type]
        sinks=sinks,
    )
    standing = KafkaOffsets({"p.read": {0: 5}})
    assert really_gone(topics, source, standing) == (("p.read", "t") if later == "fail" else ("p.read",))
    source.gone = ("shop.b_*", "shop.a")
    tables = FLOW.model_copy(update={"source": FLOW.source.model_copy(update={"on_missing_table": later})})
    assert really_gone(tables, source, PLACE) == (("shop.a", "shop.b_*") if later == "fail" else ())
