"""XA on real servers: nothing before XA COMMIT, nothing after XA ROLLBACK, rows once and at the commit's place."""

from __future__ import annotations

import dataclasses
import os
import shutil
from collections.abc import Callable, Iterator
from datetime import timedelta

import pytest

from databus.core.batching import Batching
from databus.core.errors import PreparedTransactionMissingError, SchemaUnknownError
from databus.core.positions.offsets import BinlogOffset, PreparedTransaction, offset_from_json
from databus.core.state.plan import SourcePlan
from databus.sandbox import Sandbox
from tests.contract.source_contract import EVERYTHING, IMPATIENT, Row, changes, place, rows_of
from tests.integration.binlog_shop import Shop, fields
from tests.integration.xa_history import XaHistory, replay

pytestmark = pytest.mark.integration

STEPS = int(os.environ.get("DATABUS_TEST_XA_STEPS", "140"))

SEED = int(os.environ.get("DATABUS_TEST_XA_SEED", "1"))


@pytest.fixture(params=["mysql", "mariadb"])
def flavor(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def tables_of(shop: Shop) -> tuple[str, ...]:
    return (f"{shop.name}.a", f"{shop.name}.b")


def read_in_ranges(shop: Shop, limit: Callable[[], Batching], decoder: str = "numba") -> list[Row]:
    """Read to the head in ranges; each by a source of its own that knows nothing but the stored offset."""
    rows: list[Row] = []
    place = shop.begin
    while True:
        source = shop.open(tables_of(shop), decoder=decoder)
        plan = source.plan(place, limit())
        if plan is None:
            source.close()
            return rows
        got = rows_of(source, plan, 3)
        assert changes(got) == plan.rows
        rows += got
        source.release(plan)
        if len(rows) % 8 == 1:  # a plan found unfinished whose segments and kept copies are gone
            again = source.reopen(plan.range)
            assert (again.range, again.tables, again.rows) == (plan.range, plan.tables, plan.rows)
            assert rows_of(source, again, 1) == got
            source.release(again)
        source.close()
        stored = offset_from_json(plan.range.end.to_json())
        assert stored == plan.range.end
        assert isinstance(stored, BinlogOffset)
        place = stored


def test_random_interleaving_replays_to_the_final_tables(shop: Shop) -> None:
    history = XaHistory(shop, SEED)
    try:
        for _ in range(STEPS):
            history.step()
        expected = history.tables()
        assert len(history.prepared) > 5
        one = read_in_ranges(shop, lambda: EVERYTHING)
        assert replay(one, fields) == expected
        cut = read_in_ranges(
            shop, lambda: Batching(max_rows=history.random.randint(1, 25), max_wait=timedelta(seconds=0.3))
        )
        bare = [{**row, "schema_id": None} for row in one]
        assert [{**row, "schema_id": None} for row in cut] == bare
        library = read_in_ranges(shop, lambda: EVERYTHING, decoder="library")
        assert library == one
        assert [place(r) for r in one] == sorted({place(r) for r in one})
        assert len({r["event_id"] for r in one}) == len(one)
    finally:
        history.finish()
    source = shop.open(tables_of(shop))
    plan = source.plan(shop.begin, EVERYTHING)
    assert plan is not None
    assert isinstance(plan.range.end, BinlogOffset)
    assert plan.range.end.prepared == ()
    assert rows_of(source, plan) == rows_of(source, source.reopen(plan.range))
    source.close()


class Waiting:
    """One XA transaction prepared in a shop of two tables."""

    def __init__(self, shop: Shop):
        self.shop, self.history = shop, XaHistory(shop, 0)
        self.before = shop.open(tables_of(shop)).latest_offset()
        self.history.random.random = lambda: 0.5  # type: ignore[method-assign] # prepared, and left so
        self.xid = self.history.prepare()

    def plan(self, after: BinlogOffset) -> tuple[SourcePlan, list[Row]]:
        source = self.shop.open(tables_of(self.shop))
        plan = source.plan(after, EVERYTHING)
        assert plan is not None
        rows = rows_of(source, plan)
        source.release(plan)
        source.close()
        return plan, rows

    def pins(self) -> list[str]:
        return sorted(p.name for p in self.shop.folder.glob("segments/*/*/prepared/*"))


@pytest.fixture
def waiting(shop: Shop) -> Iterator[Waiting]:
    found = Waiting(shop)
    yield found
    found.history.finish()


def end_of(plan: SourcePlan) -> BinlogOffset:
    assert isinstance(plan.range.end, BinlogOffset)
    return plan.range.end


def first_keys(tables: dict[str, dict[int, int]]) -> dict[str, dict[int, int]]:
    """What the first transaction of a history made of the tables."""
    return {name: {key: value for key, value in rows.items() if 0 <= key < 20} for name, rows in tables.items()}


def test_rows_take_place_gtid_and_time_of_the_commit(waiting: Waiting) -> None:
    shop = waiting.shop
    plan, rows = waiting.plan(waiting.before)
    assert (rows, plan.rows) == ([], 0)
    (prepared,) = end_of(plan).prepared
    assert prepared.start_pos >= waiting.before.pos
    assert [name.partition(".prepared")[2] for name in waiting.pins()] == ["", ".json"]
    waiting.history.plain()
    waiting.history.resolve("COMMIT")
    head = shop.open().latest_offset()
    shop.sql(f"INSERT INTO {shop.name}.a VALUES (-1, 1)")
    later, rows = waiting.plan(end_of(plan))
    assert (end_of(later).prepared, waiting.pins()) == ((), [])
    committed = [r for r in rows if (r["log"], r["place"]) == (head.file, head.pos)]
    assert replay(committed, fields) == first_keys(waiting.history.tables())
    assert [r["ordinal"] for r in committed] == list(range(len(committed)))
    assert (prepared.file, prepared.end_pos) < (head.file, head.pos)
    (gtid,) = {r["transaction"] for r in committed}
    assert gtid.replace("-", ":").split(":")[-1] == head.gtids.replace("-", ":").split(":")[-1]
    assert all(r["event_id"].startswith(f"{gtid}:" if gtid else f"{head.server}:") for r in committed)


def test_nothing_comes_of_a_rolled_back_one(waiting: Waiting) -> None:
    plan, _ = waiting.plan(waiting.before)
    waiting.history.resolve("ROLLBACK")
    later, rows = waiting.plan(end_of(plan))
    assert (rows, later.rows, end_of(later).prepared, waiting.pins()) == ([], 0, (), [])


def test_the_kept_copy_outlives_the_servers_log(waiting: Waiting) -> None:
    plan, _ = waiting.plan(waiting.before)
    shop = waiting.shop
    shop.sql("FLUSH BINARY LOGS")
    idle, _ = waiting.plan(end_of(plan))
    assert end_of(idle).prepared == end_of(plan).prepared
    shop.purge_to(end_of(idle).file)
    waiting.history.resolve("COMMIT")
    _, rows = waiting.plan(end_of(idle))
    assert replay(rows, fields) == waiting.history.tables()


def test_without_a_copy_the_prepare_is_dumped_again(waiting: Waiting) -> None:
    plan, _ = waiting.plan(waiting.before)
    for pin in waiting.shop.folder.glob("segments/*/*/prepared/*"):
        pin.unlink()
    waiting.shop.sql("FLUSH BINARY LOGS")
    waiting.history.resolve("COMMIT")
    _, rows = waiting.plan(end_of(plan))
    assert replay(rows, fields) == waiting.history.tables()


@pytest.mark.parametrize("known", [True, False], ids=["named by the checkpoint", "before the flow began"])
def test_a_committed_range_is_opened_again_from_what_is_kept(waiting: Waiting, known: bool) -> None:
    shop, history = waiting.shop, waiting.history
    shop.keep = "1d,1GB"
    first, _ = waiting.plan(waiting.before)
    start = end_of(first) if known else dataclasses.replace(end_of(first), prepared=())
    history.resolve("COMMIT")
    plan, rows = waiting.plan(start)
    assert replay(rows, fields) == history.tables()
    # The next transaction under the same xid, in a file behind the commit, is another one.
    shop.sql("FLUSH BINARY LOGS")
    behind = shop.open().latest_offset()
    shop.sql(f"XA START {waiting.xid}", f"INSERT INTO {shop.name}.a VALUES (9000, 1)", f"XA END {waiting.xid}")
    shop.sql(f"XA PREPARE {waiting.xid}")
    history.prepared.append(waiting.xid)
    shop.reconnect()
    shop.purge_to(behind.file)
    source = shop.open(tables_of(shop))
    again = source.reopen(plan.range)
    assert rows_of(source, again) == rows
    source.release(again)
    source.close()


@pytest.mark.parametrize("elsewhere", [False, True], ids=["unknown", "at another place"])
def test_a_prepare_before_the_start_is_found_in_the_log(waiting: Waiting, elsewhere: bool) -> None:
    shop, history = waiting.shop, waiting.history
    # The same xid was used before: its newest prepare is the one.
    history.resolve("ROLLBACK")
    history.count -= 1
    assert history.prepare() == waiting.xid
    shop.sql("FLUSH BINARY LOGS")
    history.plain()
    start = shop.open().latest_offset()
    if elsewhere:  # as after a failover: something else lies there in this server's log
        known = PreparedTransaction(logged_xid(shop), waiting.before.file, waiting.before.pos, 10**6)
        start = dataclasses.replace(start, prepared=(known,))
    history.resolve("COMMIT")
    _, rows = waiting.plan(start)
    assert replay(rows, fields) == first_keys(history.tables())


def test_a_prepare_that_is_gone_is_named(waiting: Waiting) -> None:
    shop = waiting.shop
    shop.sql("FLUSH BINARY LOGS")
    start = shop.open().latest_offset()
    shop.purge_to(start.file)
    xid = logged_xid(shop)
    waiting.history.resolve("COMMIT")
    source = shop.open(tables_of(shop))
    prepared = PreparedTransaction(xid, waiting.before.file, waiting.before.pos, 10**6)
    known = dataclasses.replace(start, prepared=(prepared,))
    for after, words in ((start, "gone"), (known, f"{prepared.file}:{prepared.start_pos}")):
        with pytest.raises(PreparedTransactionMissingError, match="XA COMMIT X'") as caught:
            source.plan(after, IMPATIENT)
        assert xid in caught.value.message
        assert words in caught.value.message
        assert caught.value.hint
    source.close()


def test_a_server_restart_between_the_phases(databases: Sandbox, waiting: Waiting) -> None:
    plan, _ = waiting.plan(waiting.before)
    databases.restart(waiting.shop.flavor)
    waiting.shop.reconnect()
    waiting.history.resolve("COMMIT")
    _, rows = waiting.plan(end_of(plan))
    assert replay(rows, fields) == waiting.history.tables()


def test_a_prepare_larger_than_any_buffer(shop: Shop) -> None:
    history = XaHistory(shop, 0)
    shop.sql(f"CREATE TABLE {shop.name}.big (id INT PRIMARY KEY, v VARCHAR(4000))")
    after = shop.open().latest_offset()
    numbers = ",".join(f"({n}, REPEAT('x', 3000))" for n in range(2000))
    shop.sql("XA START 'big'", f"INSERT INTO {shop.name}.big VALUES {numbers}", "SAVEPOINT s")
    shop.sql(f"INSERT INTO {shop.name}.big SELECT id + 10000, v FROM {shop.name}.big")
    shop.sql(f"DELETE FROM {shop.name}.big WHERE id % 2", "XA END 'big'", "XA PREPARE 'big'")
    history.prepared.append("'big'")
    shop.reconnect()
    history.resolve("COMMIT", "'big'")
    source = shop.open((f"{shop.name}.big",))
    plan = source.plan(after, EVERYTHING)
    assert plan is not None
    assert plan.rows == 2000 + 2000 + 2000
    ids: set[int] = set()
    for row in rows_of(source, plan):
        value = fields(row["after"] or row["before"])
        assert value is not None
        (ids.add if row["op"] == "c" else ids.remove)(value["id"])
    assert ids == {int(i) for (i,) in shop.sql(f"SELECT id FROM {shop.name}.big")}
    source.release(plan)
    source.close()


OPEN = {
    "mysql MINIMAL": ("id INT PRIMARY KEY, e ENUM('one','two'), n INT UNSIGNED, s SET('x','y')", ""),
    "mariadb FULL": ("id INT PRIMARY KEY, e UUID, n INET6, s INET4", "WITH SYSTEM VERSIONING"),
    "mariadb NO_LOG": ("id INT PRIMARY KEY, e ENUM('one','two'), n UUID, s INET6", "WITH SYSTEM VERSIONING"),
}
"""Server and its metadata → columns and options of a table that its TABLE_MAP events do not describe."""

ANY: dict[str, tuple[object, object]]
ANY = {"ENUM": ("one", "two"), "UUID": ("123e4567-e89b-12d3-a456-426655440000", "6ccd780c-baba-1026-9564-5b8c656024db")}
ANY |= {"INET6": ("2001:db8::1", "::"), "INET4": ("10.0.0.1", "255.0.0.0"), "INT": (4294967295, 7), "SET": ("x,y", "y")}


@pytest.fixture(params=list(OPEN))
def sparse(request: pytest.FixtureRequest, make_shop: Callable[[str, str], Shop]) -> Iterator[Shop]:
    """A shop with a table `o` of which the log leaves open what its columns are."""
    flavor, _, metadata = request.param.partition(" ")
    shop = make_shop(flavor, "numba")
    shop.sql(f"SET GLOBAL binlog_row_metadata={metadata}")
    shop.reconnect()
    columns, options = OPEN[request.param]
    shop.sql(f"CREATE TABLE {shop.name}.o ({columns}) {options}")
    yield shop
    shop.sql("SET GLOBAL binlog_row_metadata=FULL")


def open_values(shop: Shop) -> list[dict[str, object]]:
    """Two rows of `o`, as SELECT shows them."""
    listed = "SELECT column_name, UPPER(data_type) FROM information_schema.columns"
    types = dict(shop.sql(f"{listed} WHERE table_schema = '{shop.name}' AND table_name = 'o' AND column_name <> 'id'"))
    return [{"id": n, **{name: ANY[kind][n] for name, kind in types.items()}} for n in (0, 1)]


def prepare_open_rows(shop: Shop) -> list[tuple[str, object, object]]:
    """Prepare changes of `o` under the xid 'open'; returns them as they are to be delivered."""
    first, second = open_values(shop)
    values = ",".join(f"({', '.join(repr(v) for v in row.values())})" for row in (first, second))
    shop.sql("XA START 'open'", f"INSERT INTO {shop.name}.o ({', '.join(first)}) VALUES {values}")
    shop.sql(f"UPDATE {shop.name}.o SET e = '{second['e']}' WHERE id = 0", f"DELETE FROM {shop.name}.o WHERE id = 1")
    shop.sql("XA END 'open'", "XA PREPARE 'open'")
    shop.reconnect()
    return [("c", None, first), ("c", None, second), ("u", first, first | {"e": second["e"]}), ("d", second, None)]


def read_open(
    shop: Shop, after: BinlogOffset, decoder: str = "numba"
) -> tuple[BinlogOffset, list[tuple[str, object, object]]]:
    source = shop.open((f"{shop.name}.o",), decoder=decoder, flow=f"{shop.name}_{decoder}")
    plan = source.plan(after, EVERYTHING)
    assert plan is not None
    rows = rows_of(source, plan)
    assert plan.rows == changes(rows)
    source.close()
    told: list[tuple[str, object, object]]
    told = [(r["op"], fields(r["before"]), fields(r["after"])) for r in rows if r["op"] in {"c", "u", "d"}]
    return end_of(plan), told


@pytest.mark.parametrize("found", ["in the range", "kept", "in the log again", "before the flow began"])
def test_prepared_rows_have_the_tables_of_their_own_place(sparse: Shop, found: str) -> None:
    history = XaHistory(sparse, 0)
    before = start = sparse.open().latest_offset()
    expected = prepare_open_rows(sparse)
    history.prepared.append("'open'")
    if found == "before the flow began":
        sparse.sql("FLUSH BINARY LOGS")
        start = sparse.open().latest_offset()
    elif found != "in the range":
        start, told = read_open(sparse, before)
        assert (told, len(start.prepared)) == ([], 1)
    history.resolve("COMMIT", "'open'")
    if found in ("kept", "in the log again"):  # what the table becomes is not what these rows were written under
        sparse.sql(f"DROP TABLE {sparse.name}.o", f"CREATE TABLE {sparse.name}.o (id BIGINT PRIMARY KEY)")
    for kept in sparse.folder.glob("segments/*/*/prepared/*" if found == "in the log again" else "segments/.schema*"):
        shutil.rmtree(kept) if kept.is_dir() else kept.unlink()
    end, told = read_open(sparse, start)
    assert (told, end.prepared) == (expected, ())
    if found == "in the range" and sparse.sql("SELECT @@GLOBAL.binlog_row_metadata") == [("FULL",)]:
        assert read_open(sparse, before, "library")[1] == expected


@pytest.mark.parametrize("known", [True, False], ids=["a table that is known", "a table that is not known any more"])
def test_rows_of_a_table_that_the_flow_was_given_between_the_phases_have_its_definition(
    sparse: Shop, *, known: bool
) -> None:
    """The kept copy has definitions of the tables that the flow had at the XA PREPARE: this one is not among them."""
    history = XaHistory(sparse, 0)
    before = sparse.open().latest_offset()
    expected = prepare_open_rows(sparse)
    history.prepared.append("'open'")
    source = sparse.open((f"{sparse.name}.a",), flow=f"{sparse.name}_numba")
    plan = source.plan(before, EVERYTHING)
    assert plan is not None
    assert len(end_of(plan).prepared) == 1
    source.close()
    (kept,) = sparse.folder.glob("segments/*/*/prepared/*.json")
    assert f"{sparse.name}" not in kept.read_text()
    history.resolve("COMMIT", "'open'")
    if known:
        end, told = read_open(sparse, end_of(plan))
        assert (told, end.prepared) == (expected, ())
        return
    sparse.sql(f"DROP TABLE {sparse.name}.o", f"CREATE TABLE {sparse.name}.o (id BIGINT PRIMARY KEY)")
    for folder in sparse.folder.glob("segments/.schema*"):
        shutil.rmtree(folder)
    with pytest.raises(SchemaUnknownError, match=rf"rows of {sparse.name}\.o .*DROP TABLE"):
        read_open(sparse, end_of(plan))


def logged_xid(shop: Shop) -> str:
    """The xid of the only prepared transaction as the log writes it."""
    (row,) = shop.sql("XA RECOVER")
    data = row[3] if isinstance(row[3], bytes) else str(row[3]).encode("latin1")
    gtrid = int(row[1])
    return f"X'{data[:gtrid].hex()}',X'{data[gtrid:].hex()}',{row[0]}"
