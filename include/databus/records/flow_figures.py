"""Figures of one flow for its page: its newest batches, sums over a window, and marks of what happened in it.

Three statements, whatever the window: what is summed is summed by the database, over indexes that hold all of it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

import sqlalchemy as sa

from databus.core.amounts import counted
from databus.records import tables as t
from databus.records.quarantine.held_row import HeldState, in_state, with_decisions
from databus.records.store import RecordStore

LATELY = timedelta(minutes=5)
"""Batches of so long are counted for rates."""

JUDGED = timedelta(hours=1)
"""Batches of so long are looked at for what checks found, and of these the newest `_MOST_JUDGED`."""

_MOST_JUDGED = 2_000
_MOST_MARKS = 100
_JULIAN_EPOCH = 2440587.5


@dataclass(frozen=True)
class Window:
    """Window of a chart: `count` buckets of `width` that end now."""

    width: timedelta
    count: int

    def start(self, now: datetime) -> datetime:
        """Return where its first bucket begins: at a multiple of the width, so that buckets stay as time goes on."""
        width_s = self.width.total_seconds()
        return datetime.fromtimestamp((now.timestamp() // width_s + 1 - self.count) * width_s, UTC)


WINDOWS: Mapping[str, Window] = {
    "1h": Window(timedelta(minutes=1), 61),
    "24h": Window(timedelta(minutes=15), 97),
    "7d": Window(timedelta(hours=2), 85),
}


@dataclass(frozen=True)
class Mark:
    """Event in the window.

    Attributes:
        kind: "gap", "refused", "definition", or an action of the ledger such as "rewind".
        at: when, aware UTC.
        text: in words.
    """

    kind: str
    at: datetime
    text: str


@dataclass(frozen=True)
class BatchLine:
    """A batch with its counts; `counts` has read, filtered, quarantined, dispatched and superseded."""

    row: Any
    counts: Mapping[str, int]


@dataclass(frozen=True)
class CheckCount:
    """Rows that a check judged, and that violate it, in JUDGED."""

    evaluated: int
    violations: int


@dataclass(frozen=True)
class SinkCount:
    """Rows that a sink took and refused lately, and the newest batch of which it has a receipt lately."""

    written: int
    rejected: int
    batch: int


@dataclass(frozen=True)
class FlowPageFigures:
    """Figures of one flow.

    Attributes:
        batches: its newest batches, newest first.
        start: where the window's first bucket begins.
        buckets: number of a bucket, from 0 → batches, rows, and the longest delay in seconds (None where not known).
        lately: read, filtered, quarantined, dispatched and superseded of LATELY.
        sinks: sink → what it took in LATELY.
        checks: check → its counts in JUDGED.
        held: stage ("check" or a sink's name) → rows that are held back and not settled.
        marks: what happened in the window, oldest first.
        definitions: those of the window and the newest one, oldest first: batch, since, JSON.
        tables: schema of each table as the newest run had it: what it gives to which output, as JSON.
    """

    batches: Sequence[BatchLine]
    start: datetime
    buckets: Mapping[int, tuple[int, int, float | None]]
    lately: Mapping[str, int]
    sinks: Mapping[str, SinkCount]
    checks: Mapping[str, CheckCount]
    held: Mapping[str, int]
    marks: Sequence[Mark]
    definitions: Sequence[tuple[int, datetime, Mapping[str, Any]]] = ()
    tables: Sequence[Mapping[str, Any]] = field(default_factory=tuple)


COUNTS = ("read", "filtered", "quarantined", "dispatched", "superseded")


def flow_figures(
    store: RecordStore, flow: str, window: Window, now: datetime, last: int, *, tables: bool = True
) -> FlowPageFigures:
    """Return a flow's figures; three statements.

    Args:
        store: the records.
        flow: flow name.
        window: of the chart.
        now: aware UTC.
        last: newest batches that are listed.
        tables: whether schemas are read, which may be long.

    Raises:
        RecordingError: the database refuses or cannot be reached.
    """
    start = window.start(now)
    with store.transaction() as connection:
        batches = [_line(row) for row in connection.execute(_newest(flow, last))]
        summed = connection.execute(_sums(store, flow, (start, window.width), now)).all()
        told = connection.execute(_told(store, flow, start, tables=tables)).all()
    buckets, lately, held = {}, dict.fromkeys(COUNTS, 0), {}
    sinks: dict[str, SinkCount] = {}
    checks: dict[str, CheckCount] = {}
    marks: list[Mark] = []
    for kind, name, bucket, a, b, c, d, e in summed:
        if kind == "bucket":
            buckets[int(bucket)] = (int(a), int(b), None if c is None else max(0.0, float(c)))
        elif kind == "counts":
            lately = dict(zip(COUNTS, (int(value or 0) for value in (a, b, c, d, e)), strict=True))
        elif kind == "sink":
            sinks[name] = SinkCount(int(a), int(b), int(c))
        elif kind == "check":
            checks[name] = CheckCount(int(a), int(b))
        elif kind == "held":
            held[name] = int(a)
        else:
            at = datetime.fromtimestamp(float(b), UTC)
            marks.append(Mark("refused", at, f"{name} refused {counted(int(a), 'row')}"))
    definitions: list[tuple[int, datetime, Mapping[str, Any]]] = []
    schemas: list[Mapping[str, Any]] = []
    for kind, number, at, text, data in told:
        if kind == "definition":
            definitions.append((int(number), at, data))
        elif kind == "table":
            schemas.append(data)
        elif kind == "gap":
            marks.append(Mark("gap", at, f"batch {number} passed over a gap: {text}"))
        else:
            marks.append(Mark(text, _at(data, at), f"{text} by {data.get('who')}: {data.get('why')}"))
    definitions.sort(key=lambda found: found[1])
    marks += [Mark("definition", since, f"its definition changed with batch {batch}")
              for batch, since, _ in definitions if since >= start and batch > 1]  # fmt: skip
    marks.sort(key=lambda mark: mark.at)
    return FlowPageFigures(batches, start, buckets, lately, sinks, checks, held, marks, definitions, schemas)


def _line(row: Any) -> BatchLine:
    return BatchLine(row, {name: int(getattr(row, f"n_{name}") or 0) for name in COUNTS})


def _at(entry: Mapping[str, Any], paged_at: datetime) -> datetime:
    try:
        return datetime.fromisoformat(entry["at"]).astimezone(UTC)
    except (KeyError, TypeError, ValueError):
        return paged_at


def _newest(flow: str, last: int) -> sa.Select[Any]:
    b, c = t.batches.c, t.table_counts.c
    newest = sa.select(b.id).where(b.flow == flow).order_by(b.id.desc()).limit(last).subquery()
    sums = (sa.func.sum(c[name]).label(f"n_{name}") for name in COUNTS)
    counts = sa.select(c.batch, *sums).where(c.batch.in_(sa.select(newest.c.id))).group_by(c.batch).subquery()
    columns = (
        b.id, b.batch, b.mode, b.epoch, b.attempt, b.range_start, b.range_end, b.rows, b.bytes, b.durations_ms,
        b.watermark, b.committed_at, b.refilled, b.code_version, b.lost, b.snapshot_progress, b.first_batch,
        t.runs.c.run_id, t.runs.c.run_url,
    )  # fmt: skip
    return (
        sa.select(*columns, *(counts.c[f"n_{name}"] for name in COUNTS))
        .select_from(t.batches.join(t.runs, b.run == t.runs.c.id).outerjoin(counts, counts.c.batch == b.id))
        .where(b.id.in_(sa.select(newest.c.id)))
        .order_by(b.id.desc())
    )


def _sums(store: RecordStore, flow: str, chart: tuple[datetime, timedelta], now: datetime) -> Any:
    """Return (kind, name, bucket, a to e) of buckets, counts, sinks, checks, held rows and refusals."""
    start, width = chart
    lately = now - LATELY
    epoch, bucket_of = epoch_of(store), _bucket(store, start, width)
    b, c, r, k = t.batches.c, t.table_counts.c, t.receipts.c, t.check_results.c
    q = t.quarantine.c
    delay = sa.func.max(epoch(b.committed_at) - epoch(b.watermark))
    bucket = bucket_of(b.committed_at)
    numbers = sa.select(b.id).where(b.flow == flow, b.committed_at >= lately)
    judged = sa.select(b.id).where(b.flow == flow, b.committed_at >= now - JUDGED).order_by(b.id.desc())
    of_judged = sa.select(judged.limit(_MOST_JUDGED).subquery().c.id)
    of_first = bucket_of(q.first_held_at)
    total = sa.func.sum
    parts = (
        _part("bucket", None, bucket, sa.func.count(), total(b.rows), delay)
        .where(b.flow == flow, b.committed_at >= start).group_by(bucket),
        _part("counts", None, None, *(total(c[name]) for name in COUNTS)).where(c.batch.in_(numbers)),
        _part("sink", r.sink, None, total(r.written), total(r.rejected), sa.func.max(b.batch))
        .select_from(t.receipts.join(t.batches, r.batch == b.id))
        .where(b.flow == flow, b.committed_at >= lately).group_by(r.sink),
        _part("check", k.check_name, None, total(k.evaluated), total(k.violations))
        .where(k.batch.in_(of_judged)).group_by(k.check_name),
        _part("held", q.stage, None, sa.func.count()).select_from(with_decisions())
        .where(q.flow == flow, *in_state(HeldState.HELD)).group_by(q.stage),
        _part("refused", q.stage, None, sa.func.count(), epoch(sa.func.min(q.first_held_at)))
        .where(q.flow == flow, q.first_held_at >= start, q.stage != "check").group_by(q.stage, of_first),
    )  # fmt: skip
    return sa.union_all(*parts)


def _part(kind: str, name: Any, bucket: Any, *figures: Any) -> sa.Select[Any]:
    """Return one part of the union: all have the same eight columns, whose types PostgreSQL wants to be told."""
    missing = [None] * (5 - len(figures))
    return sa.select(
        sa.literal(kind, sa.Text),
        sa.cast(sa.null() if name is None else name, sa.Text),
        sa.cast(sa.null() if bucket is None else bucket, sa.Float),
        *(sa.cast(sa.null() if figure is None else figure, sa.Float(53)) for figure in (*figures, *missing)),
    )


def _told(store: RecordStore, flow: str, start: datetime, *, tables: bool) -> Any:
    """Return (kind, number, at, text, JSON) of gaps, amendments, definitions, and tables of the newest run."""
    b, p, d, u = t.batches.c, t.ledger.c, t.definitions.c, t.run_columns.c
    json = t.definitions.c.definition.type
    newest = sa.select(sa.func.max(d.id)).where(d.flow == flow).scalar_subquery()
    # Of the newest run that noted any: a run without rows notes none.
    run = sa.select(sa.func.max(u.run)).select_from(t.run_columns.join(t.runs, u.run == t.runs.c.id))
    run_of = run.where(t.runs.c.flow == flow).scalar_subquery()

    def part(kind: str, number: Any, at: Any, text: Any, data: Any) -> sa.Select[Any]:
        nothing = sa.null()
        return sa.select(
            sa.literal(kind, sa.Text).label("kind"),
            sa.cast(number, sa.BigInteger).label("number"),
            (sa.type_coerce(nothing if store.sqlite else sa.cast(nothing, t.batches.c.committed_at.type),
                            t.batches.c.committed_at.type) if at is None else at).label("at"),
            sa.cast(nothing if text is None else text, sa.Text).label("text"),
            (sa.type_coerce(nothing if store.sqlite else sa.cast(nothing, json), json) if data is None
             else sa.type_coerce(data, json)).label("data"),
        )  # fmt: skip

    parts = (
        part("gap", b.batch, b.committed_at, b.lost, None).where(
            b.flow == flow, b.committed_at >= start, t.LOST).limit(_MOST_MARKS),
        part("amended", p.number, p.paged_at, p.action, p.entry).where(
            p.flow == flow, t.AMENDED, p.action != "start", p.paged_at >= start)
        .order_by(p.number.desc()).limit(_MOST_MARKS),
        part("definition", d.batch, d.since, None, d.definition).where(
            d.flow == flow, (d.since >= start) | (d.id == newest)).order_by(d.id.desc()).limit(_MOST_MARKS),
        part("table", u.id, None, None, u.columns).where(u.run == run_of).limit(_MOST_MARKS),
    )  # fmt: skip
    # SQLite takes LIMIT in a part of a union in a subquery only.
    return sa.union_all(*(sa.select(one.subquery()) for one in parts[: None if tables else -1]))


def epoch_of(store: RecordStore) -> Callable[[Any], Any]:
    """Return what makes seconds since the epoch of a time in SQL; SQLite's to the millisecond."""
    if store.sqlite:
        return lambda at: (sa.func.julianday(at, type_=sa.Float) - _JULIAN_EPOCH) * 86_400.0
    return lambda at: sa.cast(sa.extract("epoch", at), sa.Float(53))


def _bucket(store: RecordStore, start: datetime, width: timedelta) -> Callable[[Any], Any]:
    """Return what makes the number of a bucket of a time in SQL."""
    epoch = epoch_of(store)
    width_s: sa.ColumnElement[float] = sa.literal_column(str(width.total_seconds()))
    begin: sa.ColumnElement[float] = sa.literal_column(str(start.timestamp()))

    def bucket(at: Any) -> Any:
        passed = (epoch(at) - begin) / width_s
        # SQLite's cast cuts off, PostgreSQL's rounds.
        return sa.cast(passed, sa.Integer) if store.sqlite else sa.func.floor(passed)

    return bucket
