"""`databus validate` on Kafka: what was altered in a topic is named, and nothing else, whatever writers do."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer

from databus import Batching, DropColumns, Flow, Kafka, Mask, MysqlBinlog, NotNull
from databus.core.errors.checkpoint import CheckpointConflictError, ValidationBehindError
from databus.core.errors.config import ConfigError
from databus.core.errors.sink import ValidationRefusedError
from tests.integration.command_line import Cli
from tests.integration.commands import Commands
from tests.integration.conftest import Started
from tests.integration.one_process import OneProcessWorld
from tests.integration.test_snapshot_flow import Table

pytestmark = [pytest.mark.integration, pytest.mark.timeout(300)]

ROWS = 1_000

Validated = Callable[..., Any]


@pytest.fixture(scope="module")
def world(started: Started, tmp_path_factory: pytest.TempPathFactory) -> OneProcessWorld:
    return OneProcessWorld(started("zookeeper", "kafka", "mysql"), tmp_path_factory.mktemp("validate"))


class Compared:
    """A table with rows, a flow of it into a compacted topic, and the command on it."""

    def __init__(self, world: OneProcessWorld, folder: Path, monkeypatch: pytest.MonkeyPatch, **sink: Any):
        self.world, self.table = world, Table(world, "mysql", rows=ROWS)
        self.name = self.table.name
        options: dict[str, Any] = {"topic_config": {"cleanup.policy": "compact"}, "partitions": 2, **sink}
        self.flow = Flow(
            name=self.name,
            source=MysqlBinlog(conn_id="mysql_shop", tables=(f"{self.name}.*",), snapshot="initial"),
            transforms=(DropColumns("at", tables=(f"{self.name}.t",)),),
            checks=(NotNull("name", tables=(f"{self.name}.t",)),),
            sinks=(Kafka(conn_id="kafka_east", topic="{route}", **options),),
            batching=Batching(max_wait=timedelta(seconds=0.2)),
        )
        self._file = folder / "flow.py"
        self.write(self.flow)
        self._commands = Commands(world, folder, monkeypatch)

    def write(self, flow: Flow) -> None:
        """Write the flow as the command finds it."""
        lines = ("from databus.registry import flow_from_json", f"flow = flow_from_json({flow.to_json()!r})")
        self._file.write_text("\n".join(lines))

    def __call__(self, *options: str) -> tuple[int, Any]:
        """Return exit code and result of the command."""
        done = self._commands("validate", self.name, "--wait", "100", *options, "--output", "json")
        return done.exit_code, json.loads(done.stdout)

    def said(self, *options: str) -> str:
        return self._commands("validate", self.name, *options).output

    def figures(self, *options: str) -> dict[str, int]:
        _, result = self(*options)
        (sink,) = result["sinks"]
        return dict(sink["tables"][f"{self.name}.t"])

    def tamper(self, number: int, value: dict[str, Any] | None) -> None:
        """Write a record behind the flow's back."""
        key = json.dumps({"id": number}, separators=(",", ":"))
        said = None if value is None else json.dumps({"before": None, "after": value, "op": "u"})
        # Keys stay in their partitions: the flow's records lie as Java's default partitioner has them.
        servers = self.world.sandbox.address("kafka")
        producer = Producer({"bootstrap.servers": servers, "partitioner": "murmur2_random"})
        producer.produce(f"{self.name}.t", key=key, value=said)
        assert producer.flush(30) == 0

    @contextmanager
    def running(self) -> Iterator[None]:
        """Let the flow run until the block ends."""
        stop = threading.Event()

        def run() -> None:
            while not stop.is_set():
                self.world.run(self.flow)

        thread = threading.Thread(target=run)
        thread.start()
        try:
            yield
        finally:
            stop.set()
            thread.join()


@pytest.fixture
def compared(world: OneProcessWorld, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Compared:
    made = Compared(world, tmp_path, monkeypatch)
    made.world.run(made.flow)
    return made


def test_what_was_altered_in_the_topic_is_named_and_nothing_else(compared: Compared) -> None:
    code, result = compared()
    assert (code, result["equal"]) == (0, True)
    assert compared.figures()["rows"] == ROWS
    compared.tamper(20, {"id": 20, "v": 0, "name": "altered"})
    compared.tamper(40, None)
    compared.tamper(41, {"id": 41, "v": 7, "name": "added"})
    code, result = compared()
    assert code == 8
    (sink,) = result["sinks"]
    found = {(each["kind"], each["key"]): each for each in sink["differences"]}
    assert set(found) == {("different", '{"id":20}'), ("missing", '{"id":40}'), ("extra", '{"id":41}')}
    altered = found["different", '{"id":20}']
    assert (altered["columns"], altered["source"]["name"], altered["sink"]["name"]) == (["name"], "row 10", "altered")
    assert "at" not in altered["source"]
    assert found["extra", '{"id":41}']["source"] is None
    figures = compared.figures()
    assert [figures[name] for name in ("missing", "extra", "different", "moving")] == [1, 1, 1, 0]
    said = compared.said("--show", "1")
    assert "DIFFERENT" in said
    assert "2 more keys not shown" in said
    # A sample of all rows finds the two that the source has.
    figures = compared.figures("--sample", str(10 * ROWS))
    assert [figures[name] for name in ("rows", "missing", "extra", "different")] == [ROWS, 1, 0, 1]
    assert 0 < compared.figures("--sample", "100")["rows"] < ROWS / 2


def test_writes_meanwhile_are_no_differences(compared: Compared) -> None:
    with compared.running(), compared.table.changed():
        results = [compared() for _ in range(3)]
    for code, result in results:
        (sink,) = result["sinks"]
        assert (code, sink["differences"]) == (0, [])
        assert sink["tables"][f"{compared.name}.t"]["rows"] > ROWS / 2
        assert sink["tables"][f"{compared.name}.t"]["moving"] < ROWS / 10


def test_a_difference_is_found_while_others_write(compared: Compared) -> None:
    compared.table.run(f"INSERT INTO {compared.name}.t (id, v, name) VALUES (9000001, 1, 'kept'), (9000002, 1, 'gone')")
    compared.world.run(compared.flow)
    compared.tamper(9000001, {"id": 9000001, "v": 2, "name": "kept"})
    compared.tamper(9000002, None)
    compared.tamper(9000003, {"id": 9000003, "v": 2, "name": "added"})
    with compared.running(), compared.table.changed():
        code, result = compared()
    (sink,) = result["sinks"]
    assert code == 8
    assert {(each["kind"], each["key"]) for each in sink["differences"]} == {
        ("different", '{"id":9000001}'),
        ("missing", '{"id":9000002}'),
        ("extra", '{"id":9000003}'),
    }


def test_rows_held_back_are_not_expected(compared: Compared) -> None:
    compared.table.run(
        f"UPDATE {compared.name}.t SET name = NULL WHERE id = 4",
        f"INSERT INTO {compared.name}.t (id, v) VALUES (5, 1)",
    )
    compared.world.run(compared.flow)
    figures = compared.figures()
    assert [figures[n] for n in ("rows", "held_back", "missing", "extra", "different")] == [ROWS - 1, 2, 0, 0, 0]


def test_tables_are_chosen_and_bad_names_refused(compared: Compared) -> None:
    compared.table.run(
        f"CREATE TABLE {compared.name}.other (k VARCHAR(20), n INT, x DECIMAL(20,4), PRIMARY KEY (k, n))",
        f"INSERT INTO {compared.name}.other VALUES ('a''b', 1, 1.5), ('ü', 2, 12345678901234.5678)",
    )
    compared.world.run(compared.flow)
    _, result = compared("--table", f"{compared.name}.other")
    (sink,) = result["sinks"]
    assert list(sink["tables"]) == [f"{compared.name}.other"]
    assert sink["tables"][f"{compared.name}.other"]["rows"] == 2
    assert (result["equal"], result["rows_read"]) == (True, 2)
    with pytest.raises(ConfigError, match=f"has no table {compared.name}.nothing"):
        compared("--table", f"{compared.name}.nothing")
    with pytest.raises(ConfigError, match="has no sink west"):
        compared("--sink", "west")


def test_a_flow_that_does_not_go_on_is_not_judged(
    world: OneProcessWorld, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    compared = Compared(world, tmp_path, monkeypatch)
    with pytest.raises(CheckpointConflictError, match="no checkpoint yet"):
        compared()
    world.run(compared.flow)
    compared.table.run(f"UPDATE {compared.name}.t SET v = 1 WHERE id = 2")
    with pytest.raises(ValidationBehindError, match="nothing was judged"):
        compared("--wait", "1")
    world.run(compared.flow)
    assert compared()[0] == 0


def test_a_topic_that_forgets_is_refused_by_name(
    world: OneProcessWorld, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    forgets = {"cleanup.policy": "compact,delete", "retention.ms": "3600000"}
    compared = Compared(world, tmp_path, monkeypatch, topic_config=forgets)
    world.run(compared.flow)
    with pytest.raises(ValidationRefusedError, match=rf"forgets: {compared.name}\.t \(cleanup.policy=compact,del"):
        compared()


def test_rows_that_spark_renders_are_compared_as_it_renders_them(compared: Compared, tmp_path: Path) -> None:
    flow, name = compared.flow, f"{compared.name}.t"
    cli, spark = Cli(compared.world, tmp_path), ("--spark", "local[1]", "--show", "1")
    compared.write(flow.model_copy(update={"lane": "spark"}))
    result = cli.json("validate", compared.name, *spark)
    assert result["sinks"][0]["tables"][name]["rows"] == ROWS
    masks = (*flow.transforms, Mask("name", tables=(name,)))
    compared.write(flow.model_copy(update={"transforms": masks}))
    result = cli.json("validate", compared.name, *spark, code=8)
    assert result["sinks"][0]["tables"][name]["different"] == ROWS
    (shown,) = result["sinks"][0]["differences"]
    assert (shown["columns"], shown["source"]["name"]) == (["name"], "***")
