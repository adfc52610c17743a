"""Another column under the name of the key: drawn histories of a table, from the bytes of a log to the index's key."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import count
from pathlib import Path
from random import Random
from typing import Any

import pytest

from databus import Elasticsearch, Flow, MysqlBinlog
from databus.binlog.segments.range_bounds import RangeBounds
from databus.binlog.segments.segment import TARGET_BYTES
from databus.core.connections import Connection
from databus.core.errors import SinkKeyChangedError
from databus.core.positions.offsets import BinlogOffset
from databus.core.state.plan import SourcePlan
from databus.runtime.routing import follow_columns
from databus.runtime.routing import prepare as prepare_with
from databus.sinks.elasticsearch.sink import ElasticsearchSink
from databus.sources.mysql.staged_range import source_plan
from tests.unit.binlog.log_encoder import Log, int_col
from tests.unit.binlog.test_range_staging import CAPTURE, FILE, batches, number, stage
from tests.unit.sinks.test_elasticsearch_key import Index

VERSIONS = {"mysql": "8.0.31", "mariadb": "10.11.6-MariaDB"}
Columns = tuple[tuple[str, int], ...]
"""Names of a table's columns, and what tells each from all others."""


@dataclass(frozen=True)
class Step:
    """Statements, one after the other, and rows of the table behind them.

    Attributes:
        statements: SQL.
        columns: what the table has behind them.
        key: names of its key columns.
        rows: rows of it.
    """

    columns: Columns
    key: tuple[str, ...]
    statements: tuple[str, ...] = ()
    rows: int = 0

    @property
    def ids(self) -> tuple[int, ...]:
        of = dict(self.columns)
        return tuple(of[name] for name in self.key)


START = Step((("id", 0), ("b", 1)), ("id",))


class Server(Index):
    """A server that has one index once it is made."""

    def __init__(self) -> None:
        super().__init__()
        self.meta, self.made = {}, False

    def get_mapping(self, *, index: str, params: Mapping[str, Any]) -> dict[str, Any]:
        return super().get_mapping(index=index, params=params) if self.made else {"status": 404}

    def create(self, *, index: str, body: dict[str, Any]) -> None:
        assert index == "pk"
        self.meta, self.made = body["mappings"]["_meta"], True
        self.fields = dict(body["mappings"].get("properties", {}))


@dataclass
class World:
    """A log that grows, and a sink that is asked for ranges of it."""

    folder: Path
    server: Server = field(default_factory=Server)
    steps: list[Step] = field(default_factory=list)
    numbers: Any = field(default_factory=count)
    flavor: str = "mysql"
    segment_bytes: int = TARGET_BYTES

    def log(self, position: int) -> Log:
        """Return a log whose next event lies there, behind the one that says its format."""
        header = Log(version=VERSIONS[self.flavor]).position - 4
        return Log(version=VERSIONS[self.flavor], start=position - header)

    def planned(self, start: int, end: int, rows: int | None = None) -> SourcePlan | None:
        """Return the plan of the steps from one up to another."""
        position = 1000
        for step in self.steps[:start]:
            position = written(self.log(position), step).position
        log = self.log(position)
        for step in self.steps[start:end]:
            written(log, step)
        begin = BinlogOffset(FILE, position, "", self.flavor, "uuid")
        dump, bounds = batches(log, 1000, pos=position), RangeBounds(rows, segment_bytes=self.segment_bytes)
        index, store = stage(self.folder / str(next(self.numbers)), dump, bounds, begin)
        return source_plan(index, store, CAPTURE) if index is not None else None

    def prepare(self, plan: SourcePlan | None, policy: str = "fail") -> int:
        """Ask the sink, as a batch does; return -1, or the rows before those that it refuses."""
        if plan is None:
            return -1
        spec = Elasticsearch(conn_id="s", index="pk", on_reject="quarantine", on_key_change=policy)
        flow = Flow(name="f", source=MysqlBinlog(conn_id="m", tables=("shop.t",)), sinks=(spec,))
        sink = object.__new__(ElasticsearchSink)
        sink.spec, sink._flow, sink._unlisted, sink._told = spec, "f", set(), set()
        sink._client = lambda: self.server.client  # type: ignore[method-assign]
        sink._connection = Connection(conn_id="s", conn_type="opensearch", host="h", port=1)
        follow_columns(flow, spec, sink, plan)
        try:
            prepare_with(sink, plan, [(each, each.full_name) for each in plan.tables], None)  # type: ignore[arg-type]
        except SinkKeyChangedError as refused:
            return refused.rows_before
        if plan.tables:
            self.server.newest = {column.name: 1 for column in plan.tables[-1].columns}
        return -1

    def batch(self, start: int, end: int, policy: str = "fail") -> int:
        return self.prepare(self.planned(start, end), policy)


def written(log: Log, step: Step) -> Log:
    def begin(*, alone: bool) -> Log:
        if "Maria" not in log.version:
            return log.gtid() if alone else log.gtid().begin()
        return log.mariadb_gtid(1, flags=1 if alone else 0)

    for sql in step.statements:
        begin(alone=True).query(sql)
    names = [name for name, _ in step.columns]
    for _ in range(step.rows):
        begin(alone=False).table_map(9, "t", [int_col(n) for n in names], [names.index(n) for n in step.key])
        log.rows(30, 9, len(names), [[number(1)] * len(names)]).xid()
    return log


def drawn(random: Random, before: Step, fresh: Any) -> Step:
    """Draw rows, an ALTER, or one of a table that takes the place of this one."""
    if random.random() < 0.45:
        return replace(before, statements=(), rows=random.randint(1, 3))
    columns, pool = list(before.columns), ["id", "b", "c", "old", "pk"]
    behind = {name: name for name, _ in columns} | moved_names(random, [name for name, _ in columns], pool)
    changes = {
        old: random.choice([f"RENAME COLUMN {old} TO {name}", f"CHANGE `{old}` `{name}` INT NOT NULL"])
        for old, name in behind.items()
        if old != name
    }
    kept = [(behind[name], which) for name, which in columns]
    key = [behind[name] for name in before.key]
    lost = random.choice(list(behind))
    if len(kept) > 1 and random.random() < (0.15 if behind[lost] in key else 0.3):
        changes[lost] = random.choice(["DROP ", "DROP COLUMN "]) + lost
        kept = [each for each in kept if each[0] != behind[lost]]
        key = [name for name in key if name != behind[lost]]
    room = [name for name in pool if name not in dict(kept)]
    if room and random.random() < 0.3:
        kept.append((random.choice(room), next(fresh)))
        changes["+"] = f"ADD {kept[-1][0]} INT NOT NULL"
    if random.random() < 0.3:
        random.shuffle(kept)  # FIRST, AFTER
    if not key or random.random() < 0.35:
        same = random.random() < 0.5 and {*before.key} <= {*dict(kept)}
        wanted = list(before.key) if same else random.sample(list(dict(kept)), random.randint(1, min(2, len(kept))))
        changes |= {"-": "DROP PRIMARY KEY"} if key else {}
        changes["key"], key = f"ADD PRIMARY KEY ({', '.join(wanted)})", wanted
    parts = list(changes.values()) or ["ENGINE=InnoDB"]
    random.shuffle(parts)
    alter = f"ALTER TABLE %s {', '.join(parts)}"
    statements: tuple[str, ...] = (alter % "t",)
    if random.random() < 0.2:
        swap = random.choice(["RENAME TABLE t TO t_del, t_new TO t", "RENAME TABLE shop.t TO t_del, shop.t_new TO t"])
        statements = ("CREATE TABLE t_new LIKE t", alter % "t_new", swap, "DROP TABLE t_del")
    return Step(tuple(kept), tuple(key), statements)


def moved_names(random: Random, names: list[str], pool: list[str]) -> dict[str, str]:
    """Draw other names for some columns: free ones, or those of one another."""
    moving = random.sample(names, random.randint(0, len(names)))
    free = [name for name in pool if name not in names or name in moving]
    return dict(zip(moving, random.sample(moving if random.random() < 0.2 else free, len(moving)), strict=True))


def expected(steps: Sequence[Step], taken: Sequence[tuple[int, ...]]) -> int:
    """Return the rows before the first that has an id of another key than those, -1 for none."""
    rows = 0
    for step in steps:
        if step.rows and taken and step.ids not in taken:
            return rows
        rows += step.rows
        taken = taken or ([step.ids] if step.rows else [])
    return -1


@pytest.mark.parametrize("seed", range(16))
def test_a_drawn_history_is_refused_where_ids_would_be_made_of_other_columns(tmp_path: Path, seed: int) -> None:
    """Whatever columns are called, where batches end, and what is read again; on_key_change="ignore" takes it."""
    random, fresh = Random(seed), count(2)
    world = World(tmp_path)
    last, at, newly = START, 0, 0
    taken: list[tuple[int, ...]] = []
    for _ in range(12):
        for _ in range(random.randint(1, 4)):
            last = drawn(random, last, fresh)
            world.steps.append(last)
        start = random.randint(0, at) if random.random() < 0.3 else at
        steps = world.steps[start:]
        known = taken if start < newly else taken[-1:]
        wanted = expected(steps, known)
        told = (
            f"seed {seed}: {[(s.statements, s.key, s.rows, s.ids) for s in steps]} against {known}: {world.server.meta}"
        )
        assert world.batch(start, len(world.steps)) == wanted, told
        assert world.batch(start, len(world.steps)) == wanted, f"again: {told}"
        if wanted > 0:
            cut = world.planned(start, len(world.steps), wanted)
            assert cut is not None
            assert (cut.rows, world.prepare(cut)) == (wanted, -1), told
        if wanted >= 0:
            assert world.batch(start, len(world.steps), "ignore") == -1
            assert world.batch(start, len(world.steps)) == -1, told
            newly = len(world.steps)
        for step in steps:
            if step.rows and step.ids not in known:
                taken.append(step.ids)
                known = taken
        at = len(world.steps)


SHIFTED = "ALTER TABLE t DROP PRIMARY KEY, CHANGE id old INT, CHANGE b id INT, ADD PRIMARY KEY (id)"
OLD_AND_ID, B_AND_ID = (("old", 0), ("id", 1)), (("b", 0), ("id", 1))


def steps_of(told: str) -> list[Step]:
    """Return statements that make another column stand under the name of the key, and one row behind them."""
    statements: dict[str, tuple[tuple[str, ...], Columns, tuple[str, ...]]] = {
        "in one": ((SHIFTED,), OLD_AND_ID, ("id",)),
        "renamed": (
            ("ALTER TABLE t RENAME COLUMN id TO old, RENAME COLUMN b TO id, DROP PRIMARY KEY, ADD PRIMARY KEY (id)",),
            OLD_AND_ID,
            ("id",),
        ),
        "exchanged": (
            ("ALTER TABLE t RENAME COLUMN id TO b, RENAME COLUMN b TO id, DROP PRIMARY KEY, ADD PRIMARY KEY (id)",),
            B_AND_ID,
            ("id",),
        ),
        "exchanged in place": (
            (
                "ALTER TABLE t CHANGE id b INT AFTER b, CHANGE b id INT FIRST",
                "ALTER TABLE t DROP PRIMARY KEY, ADD PRIMARY KEY (id)",
            ),
            (("id", 1), ("b", 0)),
            ("id",),
        ),
        "key later": (
            (
                "ALTER TABLE t CHANGE COLUMN id old INT, CHANGE b id INT",
                "ALTER TABLE t DROP PRIMARY KEY, ADD PRIMARY KEY (id)",
            ),
            OLD_AND_ID,
            ("id",),
        ),
        "one by one": (
            ("ALTER TABLE t CHANGE id old INT", "ALTER TABLE t CHANGE b id INT", "ALTER TABLE t DROP PRIMARY KEY",
             "ALTER TABLE t ADD PRIMARY KEY (id)"),
            OLD_AND_ID,
            ("id",),
        ),
        "made anew": (
            ("ALTER TABLE t DROP id, ADD id INT AUTO_INCREMENT PRIMARY KEY",),
            (("b", 1), ("id", 2)),
            ("id",),
        ),
        "swapped": (
            ("CREATE TABLE n LIKE t", SHIFTED.replace(" t ", " n "), "RENAME TABLE t TO o, n TO t"),
            OLD_AND_ID,
            ("id",),
        ),
        "away and back": (
            ("RENAME TABLE t TO away", SHIFTED.replace(" t ", " away "), "RENAME TABLE away TO t"),
            OLD_AND_ID,
            ("id",),
        ),
        "altered and back": (
            ("RENAME TABLE t TO away", SHIFTED.replace(" t ", " away ") + ", RENAME TO t"),
            OLD_AND_ID,
            ("id",),
        ),
    }  # fmt: skip
    sql, columns, key = statements[told]
    return [Step(columns, key, sql), Step(columns, key, rows=1)]


@pytest.mark.parametrize(
    ("told", "flavor"),
    [
        *((told, "mysql") for told in ("in one", "renamed", "exchanged", "exchanged in place", "key later")),
        *((told, "mysql") for told in ("one by one", "made anew", "swapped", "away and back", "altered and back")),
        *((told, "mariadb") for told in ("in one", "exchanged in place", "swapped")),
    ],
)
def test_another_column_under_the_name_of_the_key_is_another_key(tmp_path: Path, told: str, flavor: str) -> None:
    rows = replace(START, rows=2)
    for apart in (True, False):  # statements in a batch without rows; all in one batch
        world = World(tmp_path / str(apart), flavor=flavor)
        world.steps = [rows, *steps_of(told)]
        if apart:
            assert (world.batch(0, 1), world.batch(1, 2)) == (-1, -1)
        at = 2 if apart else 0
        assert [world.batch(at, 3), world.batch(at, 3), world.batch(0, 3)] == [0 if apart else 2, 0 if apart else 2, 2]
        assert world.batch(at, 3, "ignore") == -1
        assert [world.batch(at, 3), world.batch(0, 3), world.batch(1, 3), world.batch(2, 3)] == [-1] * 4
    world = World(tmp_path / "new", flavor=flavor)  # an index that is made behind the statements, and older rows
    world.steps = [rows, *steps_of(told)]
    assert (world.batch(1, 3), world.batch(0, 3), world.batch(0, 1)) == (-1, 0, 0)


@pytest.mark.parametrize(
    ("sql", "columns", "key"),
    [
        ("RENAME COLUMN id TO pk", (("pk", 0), ("b", 1)), "pk"),
        ("CHANGE id pk BIGINT NOT NULL FIRST", (("pk", 0), ("b", 1)), "pk"),
        ("RENAME COLUMN id TO b, RENAME COLUMN b TO id", (("b", 0), ("id", 1)), "b"),
        ("CHANGE id b INT AFTER b, CHANGE b id INT FIRST", (("id", 1), ("b", 0)), "b"),
        ("RENAME COLUMN b TO c", (("id", 0), ("c", 1)), "id"),
        ("DROP b, ADD b INT", (("id", 0), ("b", 2)), "id"),
        ("DROP COLUMN b, DROP PRIMARY KEY, ADD PRIMARY KEY (id)", (("id", 0),), "id"),
        ("CHANGE COLUMN IF EXISTS former id INT", START.columns, "id"),  # a migration that is run again
        ("RENAME COLUMN IF EXISTS former TO id, DROP COLUMN IF EXISTS gone", START.columns, "id"),
    ],
)
def test_a_key_that_is_made_of_the_same_column_goes_on(tmp_path: Path, sql: str, columns: Columns, key: str) -> None:
    flavor = "mariadb" if "IF EXISTS" in sql else "mysql"
    statements = Step(columns, (key,), (f"ALTER TABLE t {sql}",))
    steps = [replace(START, rows=2), statements, Step(columns, (key,), rows=1)]
    back = [Step(START.columns, ("id",), ("ALTER TABLE t RENAME COLUMN pk TO id",)), replace(START, rows=1)]
    steps += back if key == "pk" else []
    for apart in (True, False):
        world = World(tmp_path / str(apart), steps=steps, flavor=flavor)
        ranges = [(0, 1), (1, 2), (2, 3), (0, 3)] if apart else [(0, 3)]
        for start, end in [*ranges, (0, len(steps)), (2, len(steps)), (0, 1)]:
            assert world.batch(start, end) == -1, (start, end)


def test_an_index_of_a_databus_that_followed_no_columns_has_its_key_where_it_is_met_first(tmp_path: Path) -> None:
    """Its rows may come again from before the statements; they say nothing of the key it has now."""
    world = World(tmp_path, steps=[replace(START, rows=2), *steps_of("in one")])
    world.server.made, world.server.meta = True, {"databus": {"table": "shop.t", "key": ["id"]}}
    world.server.newest = {"id": 1, "old": 2}
    assert (world.batch(2, 3), world.batch(0, 3), world.batch(2, 3)) == (-1, 0, -1)


@pytest.mark.parametrize("sql", ["DROP id, ADD id INT PRIMARY KEY", "CHANGE b b2 INT, DROP COLUMN id, ADD id INT"])
@pytest.mark.parametrize("segment_bytes", [1, TARGET_BYTES])
def test_a_copy_whose_key_column_is_made_anew_has_another_key(tmp_path: Path, sql: str, segment_bytes: int) -> None:
    """Rows lie between its ALTER and the exchange, so that these come in segments of their own."""
    world = World(tmp_path, segment_bytes=segment_bytes)
    made, columns = ("CREATE TABLE n LIKE t", f"ALTER TABLE n {sql}"), (("b", 1), ("id", 2))
    world.steps = [
        replace(START, rows=2), Step(START.columns, ("id",), made, 3),
        Step(columns, ("id",), ("RENAME TABLE t TO o, n TO t",), 1),
    ]  # fmt: skip
    assert world.batch(0, 3) == 5


def test_a_table_that_is_back_under_its_name_has_its_columns_once(tmp_path: Path) -> None:
    exchanged = "ALTER TABLE t RENAME COLUMN id TO b, RENAME COLUMN b TO id"
    columns = (("b", 0), ("id", 1))
    back = ("RENAME TABLE t TO away", "RENAME TABLE away TO t")
    for key, told in (("b", -1), ("id", 2)):
        sql = (f"{exchanged}, DROP PRIMARY KEY, ADD PRIMARY KEY ({key})", *back)
        world = World(tmp_path / key, steps=[replace(START, rows=2), Step(columns, (key,), sql, 1)])
        assert world.batch(0, 2) == told, key


def test_a_range_that_knows_less_of_a_copy_takes_nothing_back(tmp_path: Path) -> None:
    """A backfill may begin between two ALTERs of the copy."""
    first, second = SHIFTED.replace(" t ", " n "), "ALTER TABLE n RENAME COLUMN id TO pk"
    columns = (("old", 0), ("pk", 1))
    world = World(tmp_path)
    world.steps = [
        replace(START, rows=2), Step(START.columns, ("id",), ("CREATE TABLE n LIKE t", first), 1),
        Step(START.columns, ("id",), (second,), 1), Step(columns, ("pk",), ("RENAME TABLE t TO o, n TO t",)),
        Step(columns, ("pk",), rows=1),
    ]  # fmt: skip
    assert world.batch(0, 4) == -1
    known = world.server.meta["databus"]["moved"]
    assert world.batch(2, 4) == -1
    assert world.server.meta["databus"]["moved"] == known
    assert world.batch(4, 5) == 0
