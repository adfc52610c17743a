"""Small things that commands say: whose reason is missing, what is one and what are several, which flow is away."""

from __future__ import annotations

import json
import logging
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from databus.cli import main
from databus.cli.main import app
from databus.cli.terminal.options import connection_source
from databus.connections.environment import ChainedConnections
from databus.core.amounts import counted
from databus.core.batches.counts import TableCounts
from databus.core.batches.refusals import Refusals
from databus.core.errors import ConfigError, ConnectionMissingError, DecodeError
from databus.core.positions.offsets import BinlogOffset, KafkaOffsets, OffsetRange
from databus.core.state.ledger import LedgerSpan, SpanState
from databus.ops.backfill import status
from databus.ops.backfill.missing import _again
from databus.ops.checkpoint.amend import Attribution
from databus.ops.checkpoint.place_words import place_word, require_place
from databus.ops.flows.discovery import find_flow
from databus.ops.services import naming_flow
from tests.unit.binlog.test_reader import write
from tests.unit.ops.test_decode import small_log

FLOW = "from databus import Flow, Mock, Noop\nflow = Flow(name={name!r}, source=Mock(rows=1), sinks=(Noop(),){more})\n"


def test_one_of_a_thing_is_not_several() -> None:
    assert [counted(n, "row") for n in (0, 1, 2, 1_000)] == ["0 rows", "1 row", "2 rows", "1,000 rows"]
    assert [counted(n, "batch", "batches") for n in (1, 2)] == ["1 batch", "2 batches"]
    assert str(Refusals("search", "shop.orders", 1, (("mapper_parsing", 1),))).startswith(
        "sink search refused 1 row of"
    )
    assert str(KafkaOffsets({"t": dict.fromkeys(range(17), 0)})).endswith(",1 more partition")


def test_a_wrong_name_beside_one_unreadable_file(tmp_path: Path) -> None:
    for name in "ab":
        (tmp_path / f"{name}.py").write_text("from databus import Kafka\nKafka(topc='x')\n")
    with pytest.raises(ConfigError) as refused:
        find_flow("orders", tmp_path)
    assert "a.py and 1 more file; " in refused.value.hint


def test_a_place_that_a_hint_names_can_be_typed(tmp_path: Path) -> None:
    (tmp_path / "flows.py").write_text(
        "from databus import Flow, KafkaTopics, MysqlBinlog, Noop\n"
        "flow = Flow(name='log', source=MysqlBinlog(conn_id='m', tables=('a.b',)), sinks=(Noop(),))\n"
        "other = Flow(name='topics', source=KafkaTopics(conn_id='k', topics=('a',)), sinks=(Noop(),))\n"
    )
    few, many = (KafkaOffsets({"a": dict.fromkeys(range(count), 7)}) for count in (2, 300))
    for name, place in (("log", BinlogOffset("bin.000001", 4)), ("topics", few), ("topics", many)):
        require_place(find_flow(name, tmp_path).flow, place_word(place))
    assert place_word(few) == "offsets:a:0:7,a:1:7"


def test_the_reason_of_a_discard_is_not_one_of_a_checkpoint() -> None:
    with pytest.raises(ConfigError, match="a change of a checkpoint needs who and why"):
        Attribution("ada", "")
    with pytest.raises(ConfigError, match="rows held back are discarded needs") as refused:
        Attribution("ada", " ", what="the decision that rows held back are discarded")
    assert refused.value.code == "reason_missing"


@pytest.mark.parametrize("words", [["up", "nosuch"], ["down", "nosuch"], ["logs", "nosuch"], ["restart", "nosuch"]])
def test_a_server_that_the_sandbox_does_not_know_is_a_wrong_argument(
    words: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.argv", ["databus", "sandbox", *words, "--home", str(tmp_path)])
    with pytest.raises(SystemExit) as ended:
        main.main()
    assert ended.value.code == 2
    told = capsys.readouterr().err
    assert "no server is called 'nosuch'" in told
    assert "(sandbox_server_unknown)" in told


def test_a_missing_connection_is_told_once(tmp_path: Path) -> None:
    path = tmp_path / "connections.yaml"
    path.write_text("a: mysql://db\n")
    with pytest.raises(ConnectionMissingError) as caught:
        ChainedConnections.from_environment({"DATABUS_CONNECTIONS": str(path)}).get("b")
    assert caught.value.message == f"no connection 'b': none in the environment; none in {path}"


def test_prune_says_when_there_is_nothing_to_prune(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DATABUS_RECORDS_URL", f"sqlite:///{tmp_path / 'records.db'}")
    for words in ([], ["--execute"]):
        told = " ".join(CliRunner().invoke(app, ["records", "prune", *words]).stderr.split())
        assert told.startswith("nothing to delete is older than ")
        assert "--execute" not in told
        assert "stay single" not in told


def test_decode_names_patterns_that_nothing_in_the_file_matches(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    path = write(tmp_path, small_log())
    words = ["decode", str(path), "--tables", "shop.b", "--tables", "shop.x*", "--tables", "re:shop[.]y"]
    monkeypatch.setattr("sys.argv", ["databus", *words])
    with pytest.raises(SystemExit) as ended:
        main.main()
    assert ended.value.code == 2
    shown = capsys.readouterr()
    assert [json.loads(line)["table"] for line in shown.out.splitlines()] == ["b"]
    told = " ".join(shown.err.split())
    assert f"--tables shop.x*, re:shop[.]y: no change of such a table is in {path.name}" in told
    assert "Others matched shop.b." in told
    assert "1 row in" in told
    assert CliRunner().invoke(app, ["decode", str(path), "--tables", "shop.?"]).exit_code == 0


def test_alerts_of_the_other_flows_are_listed_beside_one_that_cannot_be_looked_at(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("DATABUS_SANDBOX", "DATABUS_CONNECTIONS", "AIRFLOW_CONN_ZOOKEEPER_DEFAULT"):
        monkeypatch.delenv(name, raising=False)
    nobody = {"conn_type": "zookeeper", "host": "127.0.0.1", "port": 1}
    nobody["extra"] = json.dumps({"connect_timeout_s": 1, "operation_timeout_s": 1})
    monkeypatch.setenv("AIRFLOW_CONN_ZK_AWAY", json.dumps(nobody))
    for name, more in (("one", ""), ("two", ""), ("way", ", zookeeper_conn_id='zk_away'")):
        (tmp_path / f"{name}.py").write_text(FLOW.format(name=name, more=more))
    done = CliRunner().invoke(app, ["alerts", "list", "--dags", str(tmp_path)])
    assert done.exit_code == 4
    assert "one, two: no connection 'zookeeper_default': " in done.stderr
    assert "way: " in done.stderr
    assert "127.0.0.1:1" in done.stderr
    assert "no alerts that can be read" in done.stderr
    (tmp_path / "way.py").unlink()
    assert CliRunner().invoke(app, ["alerts", "list", "--dags", str(tmp_path)]).exit_code == 2


def test_a_request_without_an_answer_is_told_by_our_errors_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    library, other = logging.getLogger("opensearch"), logging.getLogger("kazoo")
    monkeypatch.setattr(logging, "basicConfig", lambda **_: None)  # of a process of its own
    level = other.level
    try:
        for words, warns in (([], False), (["--verbose"], True), (["--debug"], True)):
            CliRunner().invoke(app, [*words, "flows", "list", "--dags", str(tmp_path)])
            assert library.isEnabledFor(logging.WARNING) == warns
    finally:
        library.setLevel(logging.NOTSET)
        other.setLevel(level)


def test_an_error_of_decoding_names_flow_and_connection(tmp_path: Path) -> None:
    (tmp_path / "flows.py").write_text(
        "from databus import Flow, MysqlBinlog, Noop\n"
        "flow = Flow(name='log', source=MysqlBinlog(conn_id='shop', tables=('a.b',)), sinks=(Noop(),))\n"
    )
    flow = find_flow("log", tmp_path).flow
    for message in ("bin.000001:7: not understood", "flow log: shop: bin.000001:7: not understood"):
        with pytest.raises(DecodeError) as refused, naming_flow(flow):
            raise DecodeError(message)
        assert refused.value.message == "flow log: shop: bin.000001:7: not understood"


def test_a_replay_into_live_topics_tells_what_they_get_again(monkeypatch: pytest.MonkeyPatch) -> None:
    def place(pos: int, server: str = "s") -> BinlogOffset:
        return BinlogOffset("bin.000001", pos, server=server)

    def span(start: BinlogOffset, end: BinlogOffset, rows: int) -> LedgerSpan:
        return LedgerSpan(start, end, SpanState.DISPATCHED, 1, 1, tables={"a.b": TableCounts(rows, 0, 0, rows)})

    spans = (span(place(4), place(100), 1), span(place(100), place(200), 20), span(place(200), place(300), 300))
    nothing: Any = None
    monkeypatch.setattr(status, "spans_over", lambda *_: spans)
    assert status.delivered_in(nothing, nothing, OffsetRange(place(150), place(250))) == 320
    assert status.delivered_in(nothing, nothing, OffsetRange(place(4), place(100))) == 1


def test_a_backfill_that_is_to_be_run_again_is_named_by_places_that_can_be_read() -> None:
    first, later = BinlogOffset("bin.000001", 4, server="s"), BinlogOffset("bin.000001", 4, server="s", generation=1)
    assert _again("earliest", first) == "bin.000001:4"
    assert _again("2026-11-01", first) == "2026-11-01"
    assert '"generation": 1' in _again("latest", later)  # the first log may have such a place, too


def test_a_missing_connection_leads_to_no_sandbox_that_does_not_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DATABUS_SANDBOX", str(tmp_path))
    monkeypatch.delenv("DATABUS_CONNECTIONS", raising=False)
    monkeypatch.delenv("AIRFLOW_CONN_B", raising=False)
    with pytest.raises(ConnectionMissingError) as caught:
        connection_source().get("b")
    assert caught.value.message == "no connection 'b': none in the environment"
    assert caught.value.hint.startswith("Set AIRFLOW_CONN_B to JSON or a URI. ")
    assert caught.value.hint.endswith(" Or: Name a file of connections in DATABUS_CONNECTIONS.")
    (tmp_path / "connections.yaml").write_text("a: mysql://db\n")
    monkeypatch.setenv("DATABUS_CONNECTIONS", str(tmp_path / "connections.yaml"))
    with pytest.raises(ConnectionMissingError) as caught:
        connection_source().get("b")
    assert "sandbox" not in f"{caught.value.message} {caught.value.hint}"
