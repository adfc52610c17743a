"""`databus validate` on Kafka: what was altered in a topic is named, and nothing else, whatever writers do."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer

from databus import Kafka, Mask, NotNull
from databus.core.errors.checkpoint import CheckpointConflictError, ValidationBehindError
from databus.core.errors.config import ConfigError
from databus.core.errors.sink import ValidationRefusedError
from databus.demo.consumers import topic_records
from tests.integration.command_line import Cli
from tests.integration.compared_flow import ComparedFlow
from tests.integration.conftest import Started
from tests.integration.one_process import OneProcessWorld
from tests.integration.test_snapshot_flow import Table

pytestmark = [pytest.mark.integration, pytest.mark.timeout(300)]

ROWS = 1_000

Make = Callable[..., "Compared"]


@pytest.fixture(scope="module", params=["mysql", "mariadb"])
def flavor(request: pytest.FixtureRequest) -> str:
    """Each of the two kinds of server, one after the other."""
    return str(request.param)


@pytest.fixture(scope="module")
def world(flavor: str, started: Started, tmp_path_factory: pytest.TempPathFactory) -> OneProcessWorld:
    return OneProcessWorld(started("zookeeper", "kafka", flavor), tmp_path_factory.mktemp("validate"))


class Compared(ComparedFlow):
    """A flow of one table into a compacted topic."""

    def __init__(self, table: Table, folder: Path, monkeypatch: pytest.MonkeyPatch, **sink: Any):
        options: dict[str, Any] = {"topic_config": {"cleanup.policy": "compact"}, "partitions": 2, **sink}
        checks = (NotNull("name", tables=(f"{table.name}.t",)),)
        super().__init__(
            table, folder, monkeypatch, Kafka(conn_id="kafka_east", topic="{route}", **options), checks=checks
        )

    def tamper(self, number: int, value: dict[str, Any] | None, flow: str = "") -> None:
        """Write a record behind the flow's back, as one of the flow or of another one."""
        key = json.dumps({"id": number}, separators=(",", ":"))
        source = {"name": flow or self.name, "db": self.name, "table": "t"}
        said = None if value is None else json.dumps({"before": None, "after": value, "source": source, "op": "u"})
        # Keys stay in their partitions: the flow's records lie as Java's default partitioner has them.
        servers = self.world.sandbox.address("kafka")
        producer = Producer({"bootstrap.servers": servers, "partitioner": "murmur2_random"})
        producer.produce(f"{self.name}.t", key=key, value=said)
        assert producer.flush(30) == 0

    def operations(self, *numbers: int) -> dict[int, list[str]]:
        """Return id → operations of its records, in order; "" is a tombstone."""
        found: dict[int, list[str]] = {number: [] for number in numbers}
        for key, value in topic_records(self.world.sandbox.address("kafka"), f"{self.name}.t"):
            number = json.loads(key or b"")["id"]
            if number in found:
                found[number].append("" if value is None else json.loads(value)["op"])
        return found


@pytest.fixture
def make(world: OneProcessWorld, flavor: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Make:
    """Function that makes a table and a flow, which has not run yet."""
    return lambda **sink: Compared(Table(world, flavor, rows=ROWS), tmp_path, monkeypatch, **sink)


@pytest.fixture
def compared(make: Make) -> Compared:
    made = make()
    made.run()
    return made


def test_what_was_altered_in_the_topic_is_named_and_nothing_else(compared: Compared) -> None:
    code, _, result = compared()
    assert (code, result["equal"]) == (0, True)
    assert compared.figures()["rows"] == ROWS
    compared.tamper(20, {"id": 20, "v": 0, "name": "altered"})
    compared.tamper(40, None)
    compared.tamper(41, {"id": 41, "v": 7, "name": "added"})
    code, differ, result = compared()
    assert code == 8
    (sink,) = result["sinks"]
    found = {(each["kind"], each["key"]): each for each in sink["differences"]}
    assert differ == set(found) == {("different", '{"id":20}'), ("missing", '{"id":40}'), ("extra", '{"id":41}')}
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
    for code, differ, result in results:
        (sink,) = result["sinks"]
        assert (code, differ) == (0, set())
        assert sink["tables"][f"{compared.name}.t"]["rows"] > ROWS / 2
        assert sink["tables"][f"{compared.name}.t"]["moving"] < ROWS / 10


def test_a_difference_is_found_while_others_write(compared: Compared) -> None:
    compared.table.run(f"INSERT INTO {compared.name}.t (id, v, name) VALUES (9000001, 1, 'kept'), (9000002, 1, 'gone')")
    compared.run()
    compared.tamper(9000001, {"id": 9000001, "v": 2, "name": "kept"})
    compared.tamper(9000002, None)
    compared.tamper(9000003, {"id": 9000003, "v": 2, "name": "added"})
    with compared.running(), compared.table.changed():
        code, differ, _ = compared()
    assert code == 8
    assert differ == {("different", '{"id":9000001}'), ("missing", '{"id":9000002}'), ("extra", '{"id":9000003}')}


def test_extra_keys_are_deleted_where_the_source_has_no_such_row_by_then(compared: Compared) -> None:
    planted = (-1, 101, 103, 105, 9_000_001)
    for number in planted:
        compared.tamper(number, {"id": number, "v": 0, "name": "added"})
    compared.tamper(107, {"id": 107, "v": 0, "name": "of another shard"}, "other_flow")
    assert "5 extra keys stay; --delete-extra deletes them" in compared.said("--repair")
    said = compared.said("--repair", "--delete-extra")
    assert "5 extra keys to be deleted by a snapshot" in said
    assert f"deleted in {compared.name}.t: " in said
    assert "not deleted: 1 extra key of another flow or table" in said
    assert compared.snapshot().number == 1
    repair = ("--repair", "--delete-extra", "--execute", "--reason", "a test")
    assert "snapshot 2 of the repair begins" in compared.said(*repair)
    name = f"{compared.name}.t"
    compared.table.run(
        f"INSERT INTO {name} (id, v, name) VALUES (101, 1, 'lives'), (103, 1, 'lived')",
        f"DELETE FROM {name} WHERE id = 103",
    )
    compared.run()
    assert compared.operations(*planted) == {
        -1: ["u", "d", ""],
        101: ["u", "c"],
        103: ["u", "c", "d", ""],
        105: ["u", "d", ""],
        9_000_001: ["u", "d", ""],
    }
    snapshot = compared.snapshot()
    assert (snapshot.number, snapshot.tables[0].rows, snapshot.finished_at is not None) == (2, 3, True)
    assert compared()[:2] == (8, {("extra", '{"id":107}')})


def test_rows_held_back_are_not_expected(compared: Compared) -> None:
    compared.table.run(
        f"UPDATE {compared.name}.t SET name = NULL WHERE id = 4",
        f"INSERT INTO {compared.name}.t (id, v) VALUES (5, 1)",
    )
    compared.run()
    figures = compared.figures()
    assert [figures[n] for n in ("rows", "held_back", "missing", "extra", "different")] == [ROWS - 1, 2, 0, 0, 0]


def test_tables_are_chosen_and_bad_names_refused(compared: Compared) -> None:
    compared.table.run(
        f"CREATE TABLE {compared.name}.other (k VARCHAR(20), n INT, x DECIMAL(20,4), PRIMARY KEY (k, n))",
        f"INSERT INTO {compared.name}.other VALUES ('a''b', 1, 1.5), ('ü', 2, 12345678901234.5678)",
    )
    compared.run()
    _, _, result = compared("--table", f"{compared.name}.other")
    (sink,) = result["sinks"]
    assert list(sink["tables"]) == [f"{compared.name}.other"]
    assert sink["tables"][f"{compared.name}.other"]["rows"] == 2
    assert (result["equal"], result["rows_read"]) == (True, 2)
    with pytest.raises(ConfigError, match=f"has no table {compared.name}.nothing"):
        compared("--table", f"{compared.name}.nothing")
    with pytest.raises(ConfigError, match="has no sink west"):
        compared("--sink", "west")


def test_a_flow_that_does_not_go_on_is_not_judged(make: Make) -> None:
    compared = make()
    with pytest.raises(CheckpointConflictError, match="no checkpoint yet"):
        compared()
    compared.run()
    compared.table.run(f"UPDATE {compared.name}.t SET v = 1 WHERE id = 2")
    with pytest.raises(ValidationBehindError, match="nothing was judged"):
        compared("--wait", "1")
    compared.run()
    assert compared()[0] == 0


def test_a_topic_that_forgets_is_refused_by_name(make: Make) -> None:
    forgets = {"cleanup.policy": "compact,delete", "retention.ms": "3600000"}
    compared = make(topic_config=forgets)
    compared.run()
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
