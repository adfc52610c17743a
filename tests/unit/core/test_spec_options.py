"""Options of specs: described by `help()`, written and refused by the same names; durations with their unit."""

from __future__ import annotations

import inspect
import pydoc
from datetime import timedelta
from pathlib import Path
from typing import Any, ClassVar

import pytest
from pydantic import Field
from typer.testing import CliRunner

import databus
from databus import (
    AlertWhen,
    Batching,
    DropColumns,
    Flow,
    Kafka,
    KafkaTopics,
    Mirror,
    MirrorTopics,
    MysqlBinlog,
    SimpleSink,
)
from databus.cli.main import app
from databus.core.errors import ConfigError
from databus.core.option_texts import described, exact_duration
from databus.core.spec import Spec
from databus.core.stored_options import SECOND, Duration, StoredOption
from databus.extend import SimpleRows, WriteReceipt
from databus.ops.flows.written import as_written_by_people

KINDS = [
    kind
    for name in databus.__all__
    if name != "__version__" and isinstance(kind := getattr(databus, name), type) and issubclass(kind, Spec)
]


class Foreign(SimpleSink):
    """Sink of another package.

    Attributes:
        url: where rows go.
    """

    kind: ClassVar[str] = "foreign"
    url: str = "http://here"
    timeout: timedelta = timedelta(seconds=30)
    pause: timedelta | None = None
    either: timedelta | int = 5
    strict: Duration = Field(SECOND)
    strict_s: ClassVar = StoredOption[float]("strict", SECOND)

    def write(self, rows: SimpleRows) -> WriteReceipt:
        return rows.receipt()


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_help_describes_every_option(kind: type[Spec]) -> None:
    text = inspect.getdoc(kind) or ""
    assert [name for name in kind.option_names() if name not in described(text) and name not in kind.unused] == []
    assert [name for name in kind.unused if name in described(text)] == []


def test_help_of_a_kind_ends_with_the_options_of_its_base() -> None:
    shown = pydoc.render_doc(Kafka, renderer=pydoc.plaintext)  # type: ignore[attr-defined]
    own, _, inherited = shown.partition("Options of base classes:\n")
    assert "    conn_id: Kafka connection" in own
    assert "    name: name of the sink inside the flow" in inherited
    assert "    routes: patterns (fnmatch) of routes this sink takes" in inherited
    assert "route is\n |          `database.table` unless a Route sets it." in inherited.replace("\n |  ", "\n |  ")
    assert "newest_by_place:" not in inherited.partition("Method resolution")[0]


def test_a_foreign_class_is_described_too() -> None:
    assert {"url", "conn_id", "profile", "name", "routes"} <= described(inspect.getdoc(Foreign) or "").keys()


@pytest.mark.parametrize("number", [30, 0.5, 0])
def test_a_bare_number_is_no_duration_in_a_foreign_spec(number: float) -> None:
    with pytest.raises(
        ConfigError, match=rf"test_spec_options.py:\d+: Foreign: timeout={number}: a timedelta is wanted"
    ):
        Foreign(timeout=number)


def test_all_bare_numbers_are_named_beside_other_problems() -> None:
    with pytest.raises(ConfigError) as caught:
        Foreign(timeout=1, pause=2, strict=3, uri="x")
    assert [problem.partition(":")[0] for problem in caught.value.problems] == [
        "pause=2", "timeout=1", "strict=3", "unknown option 'uri'",
    ]  # fmt: skip


def test_a_number_beside_a_duration_stays_where_the_author_takes_both() -> None:
    assert Foreign(either=7, pause=None).either == 7


def test_a_stored_duration_of_a_foreign_spec_is_read_back() -> None:
    made = Foreign(timeout=timedelta(seconds=2.5))
    options = {name: value for name, value in made.to_json().items() if name != "kind"}
    assert options["timeout"] == "PT2.5S"
    assert Foreign.from_stored(options) == made
    assert Foreign.from_stored({**options, "timeout": 2.5}) == made


def test_an_option_overridden_under_its_former_name_is_refused_where_the_class_is_defined() -> None:
    with pytest.raises(
        ConfigError, match=r"test_spec_options.py:\d+: Mine: zookeeper is the former name of zookeeper_co"
    ):

        class Mine(Flow):
            zookeeper: str = "other"

    with pytest.raises(ConfigError, match=r"Quick: timeout_s is the former name of timeout") as caught:

        class Quick(Kafka):
            timeout_s = 5

    assert caught.value.hint == "Override timeout."


def test_an_option_overridden_under_its_name_is_heard() -> None:
    class Quick(Kafka):
        timeout: Duration = timedelta(seconds=5)
        timeout_s: ClassVar = StoredOption[float]("timeout", SECOND)

    assert (Quick(conn_id="k").timeout_s, Quick(conn_id="k").stored()["timeout_s"]) == (5, 5)


@pytest.mark.parametrize(
    ("option", "value", "named"),
    [
        ("max_bytes_per_s", 5, "max_bytes_per_s"),
        ("target_conn_id", None, "target_conn_id"),
        ("source_conn_id", 7, "source_conn_id"),
        ("two_way", 5, "two_way"),
        ("on_gap", "x", "on_gap"),
        ("too_large", "x", "too_large"),
        ("timeout", 5, "timeout=5"),
        ("consumer", {"no.such": 1}, "consumer"),
    ],
)
def test_an_error_about_an_option_of_a_mirror_names_the_mirror_and_its_option(
    option: str, value: Any, named: str
) -> None:
    given = {"name": "m", "source_conn_id": "a", "target_conn_id": "b", "topics": "t", option: value}
    with pytest.raises(ConfigError, match=rf"test_spec_options.py:\d+: Mirror: {named}") as caught:
        Mirror(**given)
    assert "Mirror takes: alerts, batching" in caught.value.hint
    assert "MirrorTopics" not in str(caught.value) + caught.value.hint
    assert "KafkaTopics" not in str(caught.value) + caught.value.hint


@pytest.mark.parametrize(
    ("duration", "text"),
    [
        (timedelta(hours=6), "6 h"),
        (timedelta(days=2), "48 h"),
        (timedelta(minutes=90), "90 min"),
        (timedelta(seconds=90), "90 s"),
        (timedelta(seconds=0.2), "0.2 s"),
        (timedelta(microseconds=1), "0.000001 s"),
        (timedelta(0), "0 s"),
        (timedelta(seconds=1, microseconds=10), "1.00001 s"),
        (timedelta.max, "unbounded"),
    ],
)
def test_a_duration_is_shown_without_rounding(duration: timedelta, text: str) -> None:
    assert exact_duration(duration) == text


def test_a_flow_is_shown_by_the_names_of_its_dag_file() -> None:
    flow = Flow(
        name="f",
        source=MysqlBinlog(conn_id="m", tables=("a.b",), large_values_over_bytes=2048),
        transforms=(DropColumns("x"),),
        sinks=(Kafka(conn_id="k", timeout=timedelta(seconds=5)), MirrorTopics(conn_id="k", source_conn_id="e", name="m",
               too_large="large_value", heartbeat=timedelta(seconds=1.5))),
        zookeeper_conn_id="zk",
        batching=Batching(max_wait=timedelta(seconds=2)),
        alerts=(AlertWhen(remind=timedelta(hours=4)),),
    )  # fmt: skip
    shown = as_written_by_people(flow)
    assert shown.keys() - {"expectations"} == set(Flow.option_names()) - {"expectations"}
    assert (shown["zookeeper_conn_id"], shown["sink_outage"], shown["zookeeper_loss"]) == ("zk", "30 s", "1 h")
    assert (shown["source"]["headroom"], shown["source"]["large_values_over_bytes"]) == ("6 h", 2048)
    assert shown["batching"] == {
        "max_rows": 200_000,
        "max_bytes": 256 << 20,
        "max_wait": "2 s",
        "dispatch_time": "30 s",
    }
    assert (shown["sinks"][0]["kind"], shown["sinks"][0]["timeout"]) == ("kafka", "5 s")
    assert (shown["sinks"][1]["too_large"], shown["sinks"][1]["heartbeat"]) == ("large_value", "1.5 s")
    assert (shown["alerts"][0]["remind"], shown["alerts"][0]["run_time"]) == ("4 h", None)
    for part, made in ((shown["source"], MysqlBinlog), (shown["sinks"][0], Kafka), (shown["sinks"][1], MirrorTopics)):
        assert part.keys() <= {"kind", *made.option_names()}
    topics = KafkaTopics(conn_id="k", topics=("t",))
    assert as_written_by_people(topics)["timeout"] == "30 s"


def test_flows_show_prints_them(tmp_path: Path) -> None:
    (tmp_path / "one.py").write_text(
        "from datetime import timedelta\nfrom databus import Flow, Mock, Noop\n"
        'flow = Flow(name="one", source=Mock(rows=1), sinks=(Noop(),), sink_outage=timedelta(minutes=2))\n'
    )
    shown = CliRunner().invoke(app, ["flows", "show", "one", "--dags", str(tmp_path)])
    assert shown.exit_code == 0, shown.output
    assert "sink_outage: 2 min\n" in shown.output
    assert "sink_outage_seconds" not in shown.output
