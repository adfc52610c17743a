"""A wrong place is told as the option that it was given with, with the forms that there are, before any server."""

from __future__ import annotations

from pathlib import Path

import pytest

from databus.cli import main

FLOWS = """
from databus import Flow, KafkaTopics, MysqlBinlog, Noop

log = Flow(name="log", source=MysqlBinlog(conn_id="nowhere", tables=("shop.orders",)), sinks=(Noop(),))
topics = Flow(name="topics", source=KafkaTopics(conn_id="nowhere", topics=("orders",)), sinks=(Noop(),))
"""
GTIDS = "gtid:3e11fa47-71ca-11e1-9e33-c80aa9429562:1-77"


@pytest.fixture
def dags(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "flows.py").write_text(FLOWS)
    monkeypatch.chdir(tmp_path)
    for name in ("DATABUS_SANDBOX", "DATABUS_CONNECTIONS", "AIRFLOW_CONN_ZOOKEEPER_DEFAULT"):
        monkeypatch.delenv(name, raising=False)
    return tmp_path


def told(words: str, dags: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> str:
    """Run the command as a process does; return what stands on stderr, on one line."""
    monkeypatch.setattr("sys.argv", ["databus", *words.split(), "--dags", str(dags)])
    with pytest.raises(SystemExit) as ended:
        main.main()
    assert ended.value.code == 2
    shown = capsys.readouterr()
    assert not shown.out
    return " ".join(shown.err.split())


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("backfill log --from yesterday --to latest", "flow log: --from 'yesterday' is no place of its log"),
        ("backfill log --from earliest --to 2026-13-01", "--to '2026-13-01' is no place of its log: month must be in"),
        ("backfill log --from 2026-11-31T10:00 --to latest", "--from '2026-11-31T10:00' is no place of its log: day"),
        ("backfill log --from gtid:x --to latest", "--from 'gtid:x' is no place of its log: 'x' is neither a MySQL"),
        ("backfill log --from offsets:a:0:1 --to latest", "--from 'offsets:a:0:1' is no place of its log"),
        ("backfill topics --from bin.000001:4 --to latest", "--from 'bin.000001:4' is no place of its log"),
        ("checkpoint rewind log yesterday", "flow log: PLACE 'yesterday' is no place of its log"),
        ("checkpoint skip topics offsets:orders:0", "flow topics: PLACE 'offsets:orders:0' is no place of its log"),
        ('checkpoint rewind log {"kind":"x"}', 'flow log: PLACE {"kind":"x"} is not an offset'),
        ("peek log --from yesterday", "flow log: --from 'yesterday' is no place of its log"),
    ],
)
def test_a_wrong_place_is_told_by_its_option(
    words: str, said: str, dags: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    text = told(words, dags, capsys, monkeypatch)
    assert said in text
    assert text.endswith("(place_invalid) more: databus explain place_invalid")
    assert ".py" not in text
    assert "MysqlBinlog" not in text
    if "offset" not in said:
        assert "2026-11-24T10:00" in text
        forms = {"log": "mysql-bin.000042:4", "topics": "offsets:TOPIC:PARTITION:NEXT,… (offsets:orders:0:1200)"}
        assert [name for name, form in forms.items() if form in text] == [words.split()[1 + ("checkpoint" in words)]]


@pytest.mark.parametrize(
    "words",
    [
        f"backfill log --from {GTIDS} --to latest",
        "backfill log --from 2026-11-24 --to mysql-bin.000042:4",
        "backfill topics --from group:billing --to offsets:orders:0:7",
        "checkpoint rewind log earliest",
        "peek topics --from latest",
    ],
)
def test_a_place_of_any_form_is_looked_for(
    words: str, dags: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert "no connection 'zookeeper_default'" in told(words, dags, capsys, monkeypatch)


def test_what_cannot_be_traced_is_a_wrong_argument(
    dags: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    text = told("trace yesterday", dags, capsys, monkeypatch)
    assert "'yesterday' cannot be traced Write FILE:POS" in text
