"""MySQL tables to a real search cluster: documents are whole, whatever clients log."""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import httpx
import pytest

from databus import Batching, Elasticsearch, Flow, MysqlBinlog, RenameColumns
from databus.core.errors import ConfigError, SinkSettingError
from databus.demo.consumers import index_documents
from databus.ops.ledger.show import read_ledger
from databus.ops.ledger.verify import verify
from databus.ops.quarantine import show as quarantine
from databus.ops.services import open_services
from databus.records.quarantine.held_row import HeldState
from databus.records.quarantine.rows import Selection
from tests.integration.conftest import Started
from tests.integration.cut_bulk import KilledError, kill_in_mid_batch
from tests.integration.one_process import OneProcessWorld
from tests.integration.statements import run_sql

pytestmark = [pytest.mark.integration, pytest.mark.timeout(300)]
_NUMBERS = itertools.count(1)


@pytest.fixture(scope="module")
def world(started: Started, tmp_path_factory: pytest.TempPathFactory) -> OneProcessWorld:
    return OneProcessWorld(started("zookeeper", "mysql", "opensearch"), tmp_path_factory.mktemp("search_from_binlog"))


class Indexed:
    """A database, and a flow of its tables into indices."""

    def __init__(self, world: OneProcessWorld):
        self.world = world
        self.database = f"s{os.getpid()}_{next(_NUMBERS)}"
        self.connection = world.sql()
        self.sql(f"CREATE DATABASE {self.database} CHARACTER SET utf8mb4", f"USE {self.database}")
        self.start = "{}:{}".format(*self.sql("SHOW MASTER STATUS")[0][:2])

    def sql(self, *statements: str) -> Any:
        return run_sql(self.connection, *statements)

    def flow(self, *tables: str, **sink: Any) -> Flow:
        return Flow(
            name=f"flow_{self.database}",
            source=MysqlBinlog(
                conn_id="mysql_shop", tables=tuple(f"{self.database}.{t}" for t in tables or ("*",)), start=self.start
            ),
            sinks=(Elasticsearch(**{"conn_id": "opensearch_default", "index": "{database}.{table}", **sink}),),
            batching=Batching(max_wait=timedelta(seconds=0.2)),
        )

    def documents(self, table: str = "t") -> dict[str, Any]:
        return index_documents(self.world.sandbox.address("opensearch"), f"{self.database}.{table}")

    def fields(self, table: str = "t") -> dict[str, str]:
        address = self.world.sandbox.address("opensearch")
        answer = httpx.get(f"http://{address}/{self.database}.{table}/_mapping", timeout=60).raise_for_status().json()
        (described,) = answer.values()
        return {name: field["type"] for name, field in described["mappings"]["properties"].items()}

    def held(self, flow: Flow) -> dict[str, str]:
        with open_services(flow, self.world.connections, self.world.settings) as services:
            rows = quarantine.select(flow, services, Selection(HeldState.HELD))
        return {str(row.key): row.cause for row in rows}


@pytest.fixture
def shop(world: OneProcessWorld) -> Iterator[Indexed]:
    made = Indexed(world)
    yield made
    made.sql(f"DROP DATABASE {made.database}")
    made.connection.close()


@pytest.mark.parametrize("image", ["MINIMAL", "NOBLOB"])
def test_a_row_without_all_its_columns_is_held_back_and_never_a_cut_document(shop: Indexed, image: str) -> None:
    flow = shop.flow()
    shop.sql(
        "CREATE TABLE t (id INT PRIMARY KEY, a INT, note TEXT, b INT DEFAULT 7)",
        "INSERT INTO t VALUES (1, 10, 'one', 100), (2, 20, 'two', 200), (3, 30, 'three', 300), (4, 40, 'four', 400)",
    )
    shop.world.run(flow)
    whole = shop.documents()
    shop.sql(
        f"SET SESSION binlog_row_image = '{image}'",
        "UPDATE t SET a = 11 WHERE id = 1",
        "UPDATE t SET a = 21 WHERE id = 2",
        "INSERT INTO t (id, a) VALUES (5, 50)",
        "DELETE FROM t WHERE id = 4",
        "INSERT INTO t VALUES (6, 60, 'six', 600)",
        "SET SESSION binlog_row_image = 'FULL'",
        "UPDATE t SET a = 22 WHERE id = 2",
    )
    result = shop.world.run(flow)
    held = shop.held(flow)
    assert shop.documents() == {
        "1": whole["1"],
        "2": {"id": 2, "a": 22, "note": "two", "b": 200},
        "3": whole["3"],
        "6": {"id": 6, "a": 60, "note": "six", "b": 600},
    }
    assert set(held) == {'{"id":1}', '{"id":5}'}
    lacking = "id, note, b" if image == "MINIMAL" else "note"
    assert held['{"id":1}'] == (
        f"sink_partial_image: the after-image lacks {lacking}: its client logs with another binlog_row_image than FULL"
    )
    assert not result.lag_bytes
    shop.sql("UPDATE t SET a = 12 WHERE id = 1")
    shop.world.run(flow)
    assert shop.documents()["1"] == {"id": 1, "a": 12, "note": "one", "b": 100}


def test_a_flow_may_be_told_to_stop_at_a_row_without_all_its_columns(shop: Indexed) -> None:
    shop.sql("CREATE TABLE t (id INT PRIMARY KEY, a INT, b INT)", "INSERT INTO t VALUES (1, 2, 3)")
    flow = shop.flow(partial="fail")
    shop.world.run(flow)
    shop.sql("SET SESSION binlog_row_image = 'MINIMAL'", "UPDATE t SET a = 5")
    for _ in range(2):
        with pytest.raises(SinkSettingError, match=r"\.t at .*: the after-image lacks id, b") as stopped:
            shop.world.run(flow)
    assert stopped.value.code == "sink_partial_image"
    assert '{"id"' not in stopped.value.message
    assert shop.documents() == {"1": {"id": 1, "a": 2, "b": 3}}


def test_emptied_tables_leave_the_index_in_their_place_in_the_log(shop: Indexed) -> None:
    flow = shop.flow(slots=3)
    shop.sql(
        *(f"CREATE TABLE {t} (id INT PRIMARY KEY, v INT)" for t in ("t", "a", "b", "kept")),
        *(f"INSERT INTO {t} VALUES (1, 1), (2, 2), (3, 3), (4, 4)" for t in ("t", "a", "b", "kept")),
    )
    shop.world.run(flow)
    shop.sql(
        "INSERT INTO t VALUES (5, 5), (6, 6), (7, 7)",
        "UPDATE t SET v = 9 WHERE id = 1",
        "TRUNCATE TABLE t",
        "INSERT INTO t VALUES (2, 20), (5, 50)",
        "ALTER TABLE kept ADD w INT",
        "CREATE TEMPORARY TABLE kept (id INT)",
        "DROP TEMPORARY TABLE kept",
        "DROP TABLE b, a",
        "CREATE TABLE b (id INT PRIMARY KEY, v INT)",
        "INSERT INTO b VALUES (4, 40)",
    )
    told = shop.world.run(flow).summary()
    statements = told["tables"]["(statements)"]
    assert told["sinks"] == {
        "elasticsearch": {"dispatched": told["rows"] - statements, "rejected": 0, "statements": statements}
    }
    assert shop.documents("t") == {"2": {"id": 2, "v": 20}, "5": {"id": 5, "v": 50}}
    assert shop.documents("a") == {}
    assert shop.documents("b") == {"4": {"id": 4, "v": 40}}
    assert len(shop.documents("kept")) == 4
    with open_services(flow, shop.world.connections, shop.world.settings) as services:
        found = verify(flow, services, None)
        ledger = read_ledger(flow, services).ledger
    counts, mine = ledger.tables["(statements)"], ledger.sinks["elasticsearch"]
    assert found.problems == ()
    assert counts.dispatched == counts.read == mine.statements == 4 + 5
    assert mine.dispatched == sum(c.dispatched for c in ledger.tables.values()) - counts.dispatched


def test_a_column_named_like_a_metadata_field_stops_the_flow_before_any_row_of_it(shop: Indexed) -> None:
    flow = shop.flow()
    shop.sql("CREATE TABLE t (id INT PRIMARY KEY)", "INSERT INTO t VALUES (1)")
    shop.world.run(flow)
    shop.sql("ALTER TABLE t ADD _id INT, ADD _type INT", "INSERT INTO t VALUES (2, 7, 8)")
    for _ in range(2):
        with pytest.raises(SinkSettingError, match=rf"{shop.database}\.t has the column _id, and sink") as refused:
            shop.world.run(flow)
        assert refused.value.code == "sink_reserved_column"
    assert (shop.documents(), shop.held(flow)) == ({"1": {"id": 1}}, {})
    shop.world.run(flow.model_copy(update={"transforms": (RenameColumns({"_id": "own_id"}),)}))
    assert shop.documents()["2"] == {"id": 2, "own_id": 7, "_type": 8}
    with pytest.raises(ConfigError, match="has the column _id") as told:
        shop.world.run(shop.flow().model_copy(update={"name": f"{flow.name}_anew"}))  # before its first row
    assert told.value.code == "sink_reserved_column"


def test_a_table_whose_index_would_have_an_invalid_name_is_told_before_the_first_row(shop: Indexed) -> None:
    shop.sql("CREATE TABLE `a:b` (id INT PRIMARY KEY)", "INSERT INTO `a:b` VALUES (1)")
    with pytest.raises(ConfigError, match=r"^\[sink_setting\] flow flow_.*gives '.*a:b' for table"):
        shop.world.run(shop.flow())


def test_an_index_has_fields_of_the_columns_and_follows_an_alter(shop: Indexed) -> None:
    flow = shop.flow().model_copy(update={"transforms": (RenameColumns({"old": "new"}),)})
    shop.sql(
        "CREATE TABLE t (id BIGINT UNSIGNED PRIMARY KEY, i TINYINT, f FLOAT, m DECIMAL(12,2), big DECIMAL(40,2), "
        "day DATE, at DATETIME(6), ts TIMESTAMP(3) NULL, clock TIME, y YEAR, name VARCHAR(20), e ENUM('a','b'), "
        "doc JSON, raw VARBINARY(20), bits BIT(64), ok BOOL, old INT)",
        "SET SESSION sql_mode = ''",
        "INSERT INTO t (id, name, day) VALUES (1, '2024-01-01', '0000-00-00')",
        "INSERT INTO t VALUES (18446744073709551615, -128, 1.5, 10.50, 12345678901234567890.10, '2024-01-31', "
        "'2024-01-31 10:00:00.123456', '2024-01-31 10:00:00.5', '-838:59:59', 2024, 'not a date', 'b', '{\"a\": [1]}', "
        "x'00ff', b'1', TRUE, 7)",
    )
    shop.world.run(flow)
    assert shop.held(flow) == {}
    assert shop.fields() == {
        "__flags": "keyword", "id": "unsigned_long", "i": "long", "f": "double", "m": "scaled_float", "big": "keyword",
        "day": "date", "at": "date", "ts": "date", "clock": "keyword", "y": "long", "name": "text", "e": "keyword",
        "doc": "text", "raw": "binary", "bits": "unsigned_long", "ok": "long", "new": "long",
    }  # fmt: skip
    shop.sql(
        "ALTER TABLE t ADD late BIGINT UNSIGNED, MODIFY i INT, DROP y",
        "UPDATE t SET late = 1, i = 100000 WHERE id = 1",
        "UPDATE t SET late = 18446744073709551615 WHERE id > 1",
    )
    shop.world.run(flow)
    assert shop.held(flow) == {}
    assert shop.fields()["late"] == "unsigned_long"
    documents = shop.documents()
    assert documents["1"] | {"late": 1, "i": 100000, "day": "0000-00-00"} == documents["1"]
    assert documents["18446744073709551615"]["late"] == 2**64 - 1


def test_a_flow_that_is_edited_in_mid_batch_goes_on_over_its_own_documents(
    shop: Indexed, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Planned anew in smaller batches, it meets documents of the batch that was cut short, in each of them."""
    large = shop.flow()
    small = shop.flow(gc_deletes="8d").model_copy(
        update={"batching": Batching(max_rows=3, max_wait=timedelta(seconds=0.2))}
    )
    smaller = shop.flow(gc_deletes="9d").model_copy(
        update={"batching": Batching(max_rows=1, max_wait=timedelta(seconds=0.2))}
    )
    shop.sql(
        "CREATE TABLE t (id INT PRIMARY KEY, v INT)",
        *(f"INSERT INTO t VALUES ({n}, 0)" for n in range(6)),
        *(f"UPDATE t SET v = {v} WHERE id = {n}" for v in (1, 2) for n in range(6)),
        "DELETE FROM t WHERE id = 5",
    )
    with monkeypatch.context() as patch:
        kill_in_mid_batch(patch)
        with pytest.raises(KilledError):
            shop.world.run(large)
    held = shop.documents()
    assert 0 < len(held) < 6
    shop.world.run(small, max_batches=1)
    with open_services(small, shop.world.connections, shop.world.settings) as services:
        checkpoint = services.store.load(small.name)
        found = verify(small, services, None)
    assert checkpoint is not None
    assert checkpoint.closed_until is not None
    assert found.problems == ()
    # It is cut short once more, and edited once more, before it has come to where the first plan ended.
    with monkeypatch.context() as patch:
        kill_in_mid_batch(patch)
        with pytest.raises(KilledError):
            shop.world.run(small)
    shop.sql("UPDATE t SET v = 3 WHERE id = 0")
    assert shop.world.run(smaller).batches > 6
    assert shop.documents() == {"0": {"id": 0, "v": 3}} | {f"{n}": {"id": n, "v": 2} for n in range(1, 5)}
    with open_services(small, shop.world.connections, shop.world.settings) as services:
        checkpoint = services.store.load(small.name)
        found = verify(small, services, None)
    assert checkpoint is not None
    assert checkpoint.closed_until is None
    assert found.problems == ()
