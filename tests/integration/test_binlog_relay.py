"""Several flows over one server's log: partitions of a table, and kept segments that stand in for the server."""

from __future__ import annotations

import dataclasses
import json
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from typer.testing import CliRunner

from databus.binlog.segments.retention import KeepLimit
from databus.cli.main import app
from databus.core.batching import Batching
from databus.core.errors import ConfigError, OffsetPurgedError
from databus.core.findings import Level
from databus.core.positions.offsets import Ordering
from databus.sources.mysql.row_filters import HashPartition, ModuloPartition, RangePartition, RowFilter
from tests.contract.source_contract import EVERYTHING, Row, SourceContract, changes, place, rows_of
from tests.integration.binlog_shop import Shop

pytestmark = pytest.mark.integration


class FilteredShop:
    """A shop whose sources keep one partition of its tables."""

    def __init__(self, shop: Shop):
        self._shop = shop
        self.begin = shop.begin
        self.grow = shop.grow

    def open(self) -> Any:
        odd = ModuloPartition(tables=r"re:.*\.a\d+", column="id", modulus=2, remainders=(1,))
        return self._shop.open(
            row_filters=(odd, HashPartition(tables=f"{self._shop.name}.b*", partitions=3, keep=(0,)))
        )


class TestFilteredContract(SourceContract):
    @pytest.fixture(params=["numba", "library"])
    def subject(self, make_shop: Callable[[str, str], Shop], request: pytest.FixtureRequest) -> FilteredShop:
        return FilteredShop(make_shop("mysql", request.param))


def image(row: Row, name: str) -> dict[str, Any] | None:
    from pyspark.sql.types import VariantVal

    found = row[name]
    return None if found is None else json.loads(VariantVal(found["value"], found["metadata"]).toJson())


def fold(rows: list[Row]) -> dict[int, Any]:
    """Apply rows as a keyed sink does; an update or delete of a row that it does not hold is an error."""
    state: dict[int, Any] = {}
    for row in rows:
        if row["op"] not in "cud":
            continue
        key = json.loads(row["key"])["id"]
        if row["op"] == "c":
            assert key not in state
        else:
            assert state.pop(key) == image(row, "before")
        if row["op"] != "d":
            state[key] = image(row, "after")
    return state


def partitions(table: str) -> dict[str, list[tuple[RowFilter, str]]]:
    """Filters that share a table out among flows, with the WHERE of each; "" where SQL cannot say it."""
    return {
        "modulo": [
            (ModuloPartition(tables=table, column="id", modulus=3, remainders=(n,)), f"MOD(MOD(id, 3) + 3, 3) = {n}")
            for n in range(3)
        ],
        "range": [
            (RangePartition(tables=table, column="id", upper=0), "id < 0"),
            (RangePartition(tables=table, column="id", lower=0, upper=500), "id >= 0 AND id < 500"),
            (RangePartition(tables=table, column="id", lower=500), "id >= 500"),
        ],
        "range of another column": [
            (RangePartition(tables=table, column="n", upper="0.5"), "n < 0.5"),
            (RangePartition(tables=table, column="n", lower="0.5"), "n >= 0.5"),
        ],
        "hash": [(HashPartition(tables=table, partitions=4, keep=(n,)), "") for n in range(4)],
    }


@pytest.mark.parametrize("decoder", ["numba", "library"])
@pytest.mark.parametrize("flavor", ["mysql", "mariadb"], indirect=True)
def test_partitions_hold_each_row_once_and_what_select_gives(
    make_shop: Callable[[str, str], Shop], flavor: str, decoder: str
) -> None:
    shop = make_shop(flavor, decoder)
    table = f"{shop.name}.t"
    shop.sql(
        f"CREATE TABLE {table} (id INT PRIMARY KEY, n DECIMAL(12,4) NOT NULL)",
        f"CREATE TABLE {shop.name}.u (id INT)",
    )
    for i in range(12):
        shop.transaction(
            f"INSERT INTO {table} VALUES ({i}, 0), ({i + 300}, {i} / 7), (-{i + 1}, 1)",
            f"INSERT INTO {shop.name}.u VALUES ({i})",
            f"UPDATE {table} SET n = 1 - n WHERE id % 2 = {i % 2}",
            f"UPDATE {table} SET id = id + 1000 WHERE id BETWEEN 0 AND {i - 4}",
            f"DELETE FROM {table} WHERE id = {i - 6}",
        )
    everything = shop.read()
    whole = {place(r) for r in everything if r["op"] in "cd"} | {place(r) for r in everything if r["op"] == "u"}
    for name, shared_out in partitions(table).items():
        seen: set[Any] = set()
        for wanted, where in shared_out:
            source = shop.open(row_filters=(wanted,))
            plan = source.plan(shop.begin, EVERYTHING)
            assert plan is not None
            rows = rows_of(source, plan)
            source.release(plan)
            source.close()
            assert changes(rows) == plan.rows == changes(everything)
            assert sum(r["table"] == "u" and r["op"] == "c" for r in rows) == 12
            state = fold([r for r in rows if r["table"] == "t"])
            if where:
                selected = shop.sql(f"SELECT id, n FROM {table} WHERE {where}")
                assert {i: float(row["n"]) for i, row in state.items()} == {i: float(n) for i, n in selected}
            kept = {(place(r), r["op"]) for r in rows if r["table"] == "t" and r["op"] in "cud"}
            assert not kept & seen, name
            seen |= kept
        of_table = {place(r) for r in everything if r["table"] == "t" and r["op"] in "cud"}
        assert of_table <= whole
        assert of_table <= {p for p, _ in seen}
        if name != "range of another column":  # there an update moves a row without a change of its key
            assert {p for p, _ in seen} == of_table


def test_minimal_images_and_filters_that_cannot_judge(make_shop: Callable[[str, str], Shop]) -> None:
    shop = make_shop("mysql", "numba")
    table = f"{shop.name}.t"
    shop.sql(f"CREATE TABLE {table} (id INT PRIMARY KEY, v INT)", "SET SESSION binlog_row_image = 'MINIMAL'")
    shop.sql(f"INSERT INTO {table} VALUES (1, 1), (2, 2)", f"UPDATE {table} SET v = 3", f"DELETE FROM {table}")
    odd = ModuloPartition(tables=table, column="id", modulus=2, remainders=(1,))
    rows = [r for r in shop.read(row_filters=(odd,)) if r["op"] != "m"]
    assert [(r["op"], r["key"]) for r in rows] == [
        ("c", b'{"id":1}'), ("f", None), ("u", b'{"id":1}'), ("f", None), ("d", b'{"id":1}'), ("f", None),
    ]  # fmt: skip
    wrong = ModuloPartition(tables=table, column="nothing", modulus=2, remainders=(1,))
    source = shop.open(row_filters=(wrong,))
    with pytest.raises(ConfigError, match=rf"{table} has no column 'nothing'"):
        source.plan(shop.begin, EVERYTHING)
    source.close()


class Dumps:
    """Counts the dumps that a server was asked for, by its general log."""

    def __init__(self, shop: Shop):
        self._shop = shop
        shop.sql("SET GLOBAL log_output = 'TABLE'", "TRUNCATE mysql.general_log", "SET GLOBAL general_log = ON")

    def count(self) -> int:
        rows = self._shop.sql("SELECT COUNT(*) FROM mysql.general_log WHERE command_type LIKE 'Binlog Dump%'")
        return int(rows[0][0])

    def of_proof(self, dumps: int) -> int:
        """Return how many dumps the first range of a flow takes to prove definitions: none where the log has all."""
        return dumps if self._shop.flavor == "mariadb" else 0

    def end(self) -> None:
        self._shop.sql("SET GLOBAL general_log = OFF")


@pytest.fixture
def kept(make_shop: Callable[[str, str], Shop], flavor: str) -> Iterator[tuple[Shop, Dumps]]:
    shop = make_shop(flavor, "numba")
    shop.keep = "1d,1GB"
    dumps = Dumps(shop)
    yield shop, dumps
    dumps.end()


def purge(shop: Shop) -> None:
    shop.sql("FLUSH BINARY LOGS")
    last = str(shop.sql("SHOW BINARY LOGS")[-1][0])
    deadline = time.monotonic() + 20
    while shop.sql("SHOW BINARY LOGS")[0][0] != last and time.monotonic() < deadline:
        shop.sql(f"PURGE BINARY LOGS TO '{last}'")  # MariaDB keeps a file until its engines have passed a checkpoint
    assert shop.sql("SHOW BINARY LOGS")[0][0] == last


def place_of_head(shop: Shop) -> tuple[str, int]:
    file, size, *_ = shop.sql("SHOW BINARY LOGS")[-1]
    return str(file), int(size)


def read(shop: Shop, after: Any, limit: Any = EVERYTHING, **options: Any) -> tuple[list[Row], Any]:
    source = shop.open(**options)
    plan = source.plan(after, limit)
    assert plan is not None
    rows = rows_of(source, plan)
    source.release(plan)
    source.close()
    return rows, plan.range.end


def test_one_dump_serves_several_flows(kept: tuple[Shop, Dumps]) -> None:
    shop, dumps = kept
    shop.grow()
    shop.grow()
    rows, end = read(shop, shop.begin, flow="first")
    first = dumps.count()
    assert first == 1 + dumps.of_proof(1)
    # Another flow, other tables, other cuts: no further dump.
    wanted = [r for r in rows if r["table"] == "a2" and r["op"] != "m"]
    got: list[Row] = []
    after = shop.begin
    while after.compare(end) is Ordering.BEFORE:
        more, after = read(
            shop,
            after,
            Batching(max_rows=17, max_wait=timedelta(seconds=1)),
            tables=(f"{shop.name}.a2",),
            flow="second",
        )
        got += [r for r in more if r["op"] != "m"]
    assert [{**r, "schema_id": 0} for r in got] == [{**r, "schema_id": 0} for r in wanted]
    assert after == end
    second = dumps.count()
    # Where the log begins; and what lies behind what is kept: MariaDB writes its checkpoint of a rotation when it can.
    behind = place_of_head(shop) != (end.file, end.pos)
    assert second <= first + dumps.of_proof(2 if behind else 1)
    # At the head the log goes on from the server, and the checkpoint is the same as ever.
    shop.grow()
    third, _ = read(shop, after, flow="second")
    fourth, _ = read(shop, end, flow="first")
    assert third == fourth
    assert dumps.count() == second + 1


def test_a_backfill_reaches_past_the_servers_retention(kept: tuple[Shop, Dumps]) -> None:
    shop, dumps = kept
    shop.grow()
    rows, end = read(shop, shop.begin, flow="live")
    purge(shop)
    shop.sql(f"INSERT INTO {shop.name}.a1 VALUES (9999, 'late')")
    before = dumps.count()
    source = shop.open(flow="backfill")
    findings = {f.subject.partition(": ")[2]: f for f in source.preflight(shop.begin)}
    assert findings["start"].level is Level.OK
    assert source.lag(shop.begin).bytes
    plan = source.plan(shop.begin, EVERYTHING)
    assert plan is not None
    assert plan.more
    assert rows_of(source, plan) == rows
    assert plan.range.end == end
    assert dumps.count() == before + dumps.of_proof(2)  # what is not kept: where it begins, and its statements
    source.release(plan)
    again = source.reopen(plan.range)  # a plan whose own segments are gone is cut again from what is kept
    assert rows_of(source, again) == rows
    source.close()
    shop.keep = ""
    without = shop.open(flow="without")
    with pytest.raises(OffsetPurgedError):
        without.plan(shop.begin, EVERYTHING)
    without.close()


def test_a_place_of_another_history_is_not_served(kept: tuple[Shop, Dumps]) -> None:
    shop, _ = kept
    shop.grow()
    read(shop, shop.begin, flow="live")
    relay = shop.open(flow="other")._relay
    assert relay.log_from(shop.begin) is not None
    number = shop.begin.gtids.rpartition("-")
    other = dataclasses.replace(shop.begin, gtids=f"{number[0]}-{int(number[2]) - 1}")
    assert relay.log_from(other) is None
    assert relay.log_from(dataclasses.replace(shop.begin, gtids="")) is None
    assert relay.log_from(dataclasses.replace(shop.begin, pos=shop.begin.pos + (1 << 30))) is None


def test_times_are_found_in_what_is_kept(kept: tuple[Shop, Dumps]) -> None:
    shop, dumps = kept
    stamp = "SET SESSION timestamp" if shop.flavor == "mariadb" else "SET SESSION original_commit_timestamp"
    shop.sql(f"CREATE TABLE {shop.name}.t (id INT PRIMARY KEY)")
    base = int(time.time()) - 10_000
    for i in range(20):
        at = base + 100 * i
        shop.sql(f"{stamp} = {at if shop.flavor == 'mariadb' else at * 1_000_000}")
        shop.sql(f"INSERT INTO {shop.name}.t VALUES ({i})")
        if i % 7 == 6:
            shop.sql("FLUSH BINARY LOGS")
    whole, _ = read(shop, shop.begin, flow="live")
    stamps = {json.loads(r["key"])["id"]: r["ts_ms"] for r in whole if r["op"] == "c"}
    assert stamps == {i: (base + 100 * i) * 1000 for i in range(20)}
    purge(shop)
    before = dumps.count()
    source = shop.open(flow="other")
    for i in (3, 6, 7, 12, 18):
        found = source.offset_at(datetime.fromtimestamp(base + 100 * i, UTC))
        rows, _ = read(shop, found, flow="other")
        assert [json.loads(r["key"])["id"] for r in rows if r["op"] == "c"] == list(range(i, 20))
    assert dumps.count() == before + dumps.of_proof(2)
    source.close()


def test_segments_are_listed_and_pruned(kept: tuple[Shop, Dumps], monkeypatch: pytest.MonkeyPatch) -> None:
    shop, dumps = kept
    shop.grow()
    rows, _ = read(shop, shop.begin, flow="live")
    monkeypatch.setenv("DATABUS_SEGMENT_STORE", str(shop.folder / "segments"))
    monkeypatch.setenv("DATABUS_SEGMENT_KEEP", "1d")

    def command(*arguments: str) -> Any:
        done = CliRunner().invoke(app, ["segments", *arguments])
        assert done.exit_code == 0, done.output
        return json.loads(done.stdout) if "json" in arguments else done.stdout

    listed = command("list", "-o", "json")
    assert {(s["server"], s["flavor"]) for s in listed} == {(shop.begin.server, shop.flavor)}
    assert sum(s["transactions"] for s in listed) >= 22
    assert min(s["first_commit_at"] for s in listed) <= max(s["last_commit_at"] for s in listed)
    assert command("prune", "-o", "json") == []
    assert len(command("prune", "--keep", "1B", "-o", "json")) == len(listed)
    assert len(command("list", "-o", "json")) == len(listed)
    assert len(command("prune", "--execute", "--keep", "1B", "-o", "json")) == len(listed)
    assert command("list", "-o", "json") == []
    # What was pruned comes from the server again.
    before = dumps.count()
    again, _ = read(shop, shop.begin, flow="other")
    assert again == rows
    assert dumps.count() == before + 1 + dumps.of_proof(1)


def test_pruning_under_a_reader_loses_nothing(kept: tuple[Shop, Dumps]) -> None:
    shop, _ = kept
    for _ in range(3):
        shop.grow()
    rows, end = read(shop, shop.begin, flow="live")
    source = shop.open(flow="other")
    kept_log = source._relay.log_from(shop.begin)
    assert kept_log is not None
    batches = kept_log.batches()
    next(batches)
    for segment in kept_log.chain[2:]:
        source._relay._kept().prune(KeepLimit(max_bytes=segment.size_bytes), time.time())
    read_bytes = sum(b.end for b in batches)
    assert read_bytes < sum(s.size_bytes for s in kept_log.chain)
    got: list[Row] = []
    after = shop.begin
    while after.compare(end) is Ordering.BEFORE:
        more, after = read(shop, after, flow="other")
        got += more
    assert [r["event_id"] for r in got] == [r["event_id"] for r in rows]
    source.close()
