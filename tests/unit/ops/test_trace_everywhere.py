"""A place that no flow holds: all are asked, and what those that read its log have recorded is told as places."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from typer.testing import CliRunner

from databus import Flow, Kafka, MysqlBinlog
from databus.cli.main import app
from databus.connections.environment import EnvironmentConnections
from databus.core.flow_specs import SourceSpec
from databus.core.positions.offsets import KafkaOffsets, Offset, SequenceOffset
from databus.core.settings import Settings
from databus.core.trace import TraceNotRecordedError
from databus.ops.trace.follow import trace
from databus.ops.trace.query import recognise
from databus.records.store import RecordStore
from databus.sources.kafka.spec import KafkaTopics
from databus.sources.mock.spec import Mock
from tests.contract.many_batches import fill, record

SINKS = (Kafka(conn_id="k", topic="many"),)
LOG = MysqlBinlog(conn_id="m", tables=("shop.*",))
SOURCES: dict[str, SourceSpec] = {
    "a_counted": Mock(rows=500),
    "b_topics": KafkaTopics(conn_id="k", topics=("many",)),
    "orders": LOG,
    "people": LOG,
}
FLOWS = [Flow(name=name, source=source, sinks=SINKS) for name, source in SOURCES.items()]


@pytest.fixture
def records(tmp_path: Path) -> Iterator[str]:
    with RecordStore(f"sqlite:///{tmp_path / 'records.db'}") as store:
        moved: dict[str, tuple[Offset, Offset]] = {
            "a_counted": (SequenceOffset(0), SequenceOffset(500)),
            "b_topics": (KafkaOffsets({"many": {0: 3}}), KafkaOffsets({"many": {0: 9}})),
        }
        for name, (start, end) in moved.items():
            record(store, name, 100, [(start, end, {})])
        fill(store, "orders", 2, 1000)
        fill(store, "people", 3, 1000, first_file=200)
        yield store.url.render_as_string(hide_password=False)


def refusal(text: str, records: str, flows: list[Flow]) -> str:
    where = EnvironmentConnections({}), Settings("test", "", records)
    with pytest.raises(TraceNotRecordedError) as refused:
        trace(recognise(text), flows, where)
    return f"{refused.value.message} {refused.value.hint}"


def test_a_place_that_no_flow_holds_is_told_of_all_that_read_its_log(records: str) -> None:
    told = refusal("mysql-bin.000777:5", records, FLOWS)
    assert told.startswith("no flow has recorded mysql-bin.000777:5: orders read mysql-bin.000100:4 to ")
    assert "orders read mysql-bin.000100:4 to mysql-bin.000100:800004 of server 3e11fa47-" in told
    assert "people read mysql-bin.000200:4 to mysql-bin.000200:1200004 of server 3e11fa47-" in told
    assert "2 other flows never read or wrote there" in told
    assert "--flow asks one flow alone" in told


def test_a_place_of_a_server_s_log_is_none_of_a_source_that_counts(records: str) -> None:
    """Its transactions have numbers, and a position was taken for one of them."""
    told = refusal("mysql-bin.000777:5", records, FLOWS[:1])
    assert told.startswith("flow a_counted: no recorded batch read mysql-bin.000777:5; recorded is mock.000001:1 to ")


def test_of_a_record_those_are_told_that_wrote_to_its_partition(records: str) -> None:
    told = refusal("many:3:99999", records, FLOWS)
    assert told.startswith("no flow has recorded many:3:99999: orders wrote many:3:0 to many:3:500; people wrote")
    assert "2 other flows never read or wrote there" in told


def test_one_flow_alone_tells_its_own_range(records: str) -> None:
    told = refusal("mysql-bin.000777:5", records, FLOWS[2:3])
    assert told.startswith("flow orders: no recorded batch read mysql-bin.000777:5; recorded is mysql-bin.000100:4 to")
    assert "recorded is many:0:3 to many:0:8" in refusal("mysql-bin.000777:5", records, FLOWS[1:2])


def test_the_command_asks_all_flows(records: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = "".join(f"f{n} = flow_from_json({flow.to_json()!r})\n" for n, flow in enumerate(FLOWS))
    (tmp_path / "flows.py").write_text(f"from databus.registry import flow_from_json\n{made}")
    monkeypatch.setenv("DATABUS_RECORDS_URL", records)
    done = CliRunner().invoke(app, ["trace", "mysql-bin.000777:5", "--dags", str(tmp_path)])
    assert isinstance(done.exception, TraceNotRecordedError)
    assert "orders read" in done.exception.message
    assert "people read" in done.exception.message
