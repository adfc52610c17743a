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
from databus.binlog.range_staging import RangeBounds
from databus.core.connections import Connection
from databus.core.errors import SinkKeyChangedError
from databus.core.offsets import BinlogOffset
from databus.core.plan import SourcePlan
from databus.runtime.routing import follow_columns
from databus.runtime.routing import prepare as prepare_with
from databus.sinks.elasticsearch_sink import ElasticsearchSink
from databus.sources.staged_range import source_plan
from tests.unit.binlog.log_encoder import Log, int_col
from tests.unit.binlog.test_range_staging import CAPTURE, FILE, batches, number, stage
from tests.unit.sinks.test_elasticsearch_key import Index

HEADER = Log().position - 4
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


@dataclass
class Server(Index):
    """A server that has one index once it is made."""

    made: bool = False
    down: bool = False

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

    def planned(self, start: int, end: int, rows: int | None = None) -> SourcePlan | None:
        """Return the plan of the steps from one up to another."""
        position = Log().position
        for step in self.steps[:start]:
            position = written(Log(start=position - HEADER), step).position
        log = Log(start=position - HEADER)
        for step in self.steps[start:end]:
            written(log, step)
        begin = BinlogOffset(FILE, position, "", "mysql", "uuid")
        dump = batches(log, 1000, pos=position)
        index, store = stage(self.folder / str(next(self.numbers)), dump, RangeBounds(rows), begin)
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
    for sql in step.statements:
        log.gtid().query(sql)
    names = [name for name, _ in step.columns]
    for _ in range(step.rows):
        log.gtid().begin().table_map(9, "t", [int_col(n) for n in names], [names.index(n) for n in step.key])
        log.rows(30, 9, len(names), [[number(1)] * len(names)]).xid()
    return log


def drawn(random: Random, before: Step, fresh: Any) -> Step:
    """Draw rows, an ALTER, or one of a table that takes the place of this one."""
    if random.random() < 0.45:
        return replace(before, statements=(), rows=random.randint(1, 3))
    columns, key, changes = list(before.columns), list(before.key), []
    pool = ["id", "b", "c", "old", "pk"]
    moving = random.sample(range(len(columns)), random.randint(0, len(columns)))
    staying = {name for at, (name, _) in enumerate(columns) if at not in moving}
    names = random.sample([name for name in pool if name not in staying], len(moving))
    behind = {name: name for name, _ in columns}
    if random.random() < 0.2 and len(columns) > 1:
        names = [columns[at][0] for at in moving]
        random.shuffle(names)
    for at, name in zip(moving, names, strict=True):
        old = columns[at][0]
        behind[old] = name
        how = random.choice([f"RENAME COLUMN {old} TO {name}", f"CHANGE `{old}` `{name}` INT NOT NULL"])
        changes += [how] if old != name else []
    kept = [(behind[name], which) for name, which in columns]
    key = [behind[name] for name in key]
    if len(kept) > 1 and random.random() < 0.3:
        lost = random.choice([name for name, _ in columns])
        if behind[lost] not in key or random.random() < 0.5:
            changes = [each for each in changes if not each.split("TO")[0].replace("`", "").split()[-1] == lost]
            changes = [c for c in changes if not c.startswith(f"CHANGE `{lost}` ")] + [f"DROP COLUMN {lost}"]
            kept = [each for each in kept if each[0] != behind[lost]]
            key = [name for name in key if name != behind[lost]]
    room = [name for name in pool if name not in dict(kept)]
    if room and random.random() < 0.3:
        added = random.choice(room)
        kept.append((added, next(fresh)))
        changes.append(f"ADD {added} INT NOT NULL")
    if random.random() < 0.3:
        random.shuffle(kept)
    if not key or random.random() < 0.35:
        wanted = random.sample([name for name, _ in kept], random.randint(1, min(2, len(kept))))
        wanted = list(before.key) if random.random() < 0.5 and {*before.key} <= {*dict(kept)} else wanted
        changes = [*(["DROP PRIMARY KEY"] if key else []), *changes, f"ADD PRIMARY KEY ({', '.join(wanted)})"]
        key = wanted
    changes = changes or ["ENGINE=InnoDB"]
    random.shuffle(changes)
    sql = f"ALTER TABLE %s {', '.join(changes)}"
    statements: tuple[str, ...] = (sql % "t",)
    if random.random() < 0.2:
        swap = random.choice(
            ["RENAME TABLE t TO t_del, t_new TO t", "RENAME TABLE shop.t TO t_del, shop.t_new TO shop.t"]
        )
        statements = ("CREATE TABLE t_new LIKE t", sql % "t_new", swap, "DROP TABLE t_del")
    return Step(tuple(kept), tuple(key), statements)


def expected(steps: Sequence[Step], taken: Sequence[tuple[int, ...]]) -> int:
    """Return the rows before the first that has an id of another key than those, -1 for none."""
    rows = 0
    for step in steps:
        if step.rows and taken and step.ids not in taken:
            return rows
        rows += step.rows
        taken = taken or ([step.ids] if step.rows else [])
    return -1


@pytest.mark.parametrize("seed", range(24))
def test_a_drawn_history_is_refused_where_ids_would_be_made_of_other_columns(tmp_path: Path, seed: int) -> None:
    """Whatever columns are called, batches end where, and what is read again; and taken on where it is to be ignored."""
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
