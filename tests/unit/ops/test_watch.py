"""A watchdog goes on: whatever is wrong with a file, a connection or Airflow's answer, each look leaves a round."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from databus.connections.environment import EnvironmentConnections
from databus.core.alerts.book import AlertState
from databus.core.connections import Connection, ConnectionSource
from databus.core.settings import Settings
from databus.ops.health.airflow import AirflowHealth
from databus.ops.health.watch import FlowWatch, Round, run
from tests.unit.observe.receivers import Hooks, answering, http_receiver

Watching = Callable[..., FlowWatch]


@pytest.fixture
def hooks() -> Iterator[Hooks]:
    with http_receiver() as found:
        yield found


@pytest.fixture
def known(hooks: Hooks) -> EnvironmentConnections:
    """A receiver that is there, and a ZooKeeper that is away."""
    seconds = {"connect_timeout_s": 1, "operation_timeout_s": 1}
    return EnvironmentConnections({
        "AIRFLOW_CONN_HOOK": json.dumps(
            {"conn_type": "http", "host": "127.0.0.1", "port": hooks.port, "schema": "http"}
        ),
        "AIRFLOW_CONN_AWAY": json.dumps(
            {"conn_type": "zookeeper", "host": "127.0.0.1", "port": 1, "extra": seconds}
        ),
    })  # fmt: skip


@pytest.fixture
def watching(tmp_path: Path, known: EnvironmentConnections) -> Iterator[Watching]:
    started: list[FlowWatch] = []

    def start(airflow: AirflowHealth | None = None, connections: ConnectionSource = known) -> FlowWatch:
        records = f"sqlite:///{tmp_path / 'records.db'}"
        started.append(FlowWatch(tmp_path / "dags", connections, Settings("test", str(tmp_path), records), airflow))
        return started[-1]

    (tmp_path / "dags").mkdir()
    yield start
    for watch in started:
        watch.close()


def write_flow(tmp_path: Path, name: str, zookeeper: str = "nowhere") -> None:
    (tmp_path / "dags" / f"{name}.py").write_text(
        "from databus import Flow, Mock, Noop, Webhook\n"
        f"flow = Flow(name='{name}', source=Mock(rows=1), sinks=(Noop(),), zookeeper_conn_id='{zookeeper}',\n"
        "            alerts=(Webhook(conn_id='hook', kinds=('airflow',)),))\n"
    )


def names(seen: Round) -> list[str]:
    return [figures.flow for figures in seen.figures]


def told(hooks: Hooks) -> list[tuple[str, str]]:
    return [(posted.body["event"], posted.body["subject"]) for posted in hooks.requests]


def test_an_editor_that_locks_a_file_hides_no_flow(tmp_path: Path, watching: Watching) -> None:
    write_flow(tmp_path, "orders")
    (tmp_path / "dags" / ".#orders.py").symlink_to("me@here.4711:1")
    watch = watching()
    first, second = watch.round(), watch.round()
    assert names(first) == names(second) == ["orders"]
    assert first.problems == second.problems == ()


def test_a_file_that_goes_away_while_it_is_looked_for_harms_one_round(tmp_path: Path, watching: Watching) -> None:
    write_flow(tmp_path, "orders")
    (tmp_path / "dags" / "a.py").write_text(
        "import databus\nfrom pathlib import Path\nPath(__file__).with_name('b.py').unlink(missing_ok=True)\n"
    )
    (tmp_path / "dags" / "b.py").write_text("import databus\n")
    watch = watching()
    first, second = watch.round(), watch.round()
    assert names(first) == names(second) == ["orders"]
    assert "b.py" in first.problems[0]
    assert second.problems == ()


def test_a_mistyped_zookeeper_of_the_first_flow_ends_nothing(
    tmp_path: Path, watching: Watching, hooks: Hooks, caplog: pytest.LogCaptureFixture
) -> None:
    write_flow(tmp_path, "a", zookeeper="nowhere")
    write_flow(tmp_path, "b", zookeeper="away")
    write_flow(tmp_path, "c", zookeeper="away")
    watch = watching(AirflowHealth("http://127.0.0.1:9"))
    assert [names(watch.round()) for _ in range(2)] == [["a", "b", "c"]] * 2
    assert told(hooks) == [("raised", "api-server")]
    lost = [record.getMessage().split(":")[0] for record in caplog.records if "on Airflow" in record.getMessage()]
    assert lost == [f"alerts on Airflow are not remembered in {name}" for name in ("nowhere", "away")] * 2


def test_a_health_that_is_cut_off_is_an_alert(tmp_path: Path, watching: Watching, hooks: Hooks) -> None:
    write_flow(tmp_path, "orders")
    with answering(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{") as port:
        seen = watching(AirflowHealth(f"http://127.0.0.1:{port}")).round()
    assert seen.number == 1
    assert told(hooks) == [("raised", "api-server")]


def test_an_alert_of_a_newer_version_is_not_counted(tmp_path: Path, watching: Watching) -> None:
    write_flow(tmp_path, "orders")
    watch = watching()
    watch._local.swap("orders", "weather/rain", None, AlertState(raised=True))
    watch._local.swap("orders", "gap/3", None, AlertState(raised=True))
    alerts = {p.labels["kind"]: p.value for p in watch.round().points if p.metric.name == "databus.alerts"}
    assert {kind for kind, on in alerts.items() if on} == {"gap", "unreachable"}


class Moody:
    """Connections of a source that fails as nobody foresaw, until it does not."""

    def __init__(self, source: ConnectionSource) -> None:
        self.source, self.fails = source, True

    def get(self, conn_id: str) -> Connection:
        if self.fails:
            raise RuntimeError("out of order")
        return self.source.get(conn_id)


def test_a_look_that_fails_is_followed_by_another(
    tmp_path: Path, watching: Watching, known: EnvironmentConnections, caplog: pytest.LogCaptureFixture
) -> None:
    write_flow(tmp_path, "orders")
    moody, rounds = Moody(known), list[Round]()

    def wait(_seconds: float) -> bool:
        moody.fails = False
        return bool(rounds)

    run(watching(None, moody), 1, wait, rounds.append)
    assert [seen.number for seen in rounds] == [1]
    assert "another follows" in caplog.text
