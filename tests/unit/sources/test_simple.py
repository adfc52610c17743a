"""Simple sources keep the source contract; what a class does not say is refused by name."""

# ruff: noqa: DTZ001 - DATETIME has no zone
from __future__ import annotations

import json
import pickle
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from importlib.metadata import EntryPoint
from typing import Any, ClassVar

import pytest

import databus
from databus import SimpleSource
from databus.core.batching import Batching
from databus.core.errors import ConfigError, DecodeError, OffsetInvalidError, SourceSettingError, SourceUnavailableError
from databus.core.findings import Level
from databus.core.positions import offset_kinds
from databus.core.positions.offsets import Offset, OffsetRange, Ordering, SequenceOffset
from databus.core.state.plan import Plan
from databus.sources.simple import RowChange, Table
from databus.testing.contract import SimpleSubject, SourceContract
from databus.testing.contract.source import EVERYTHING, rows_of

SINCE = datetime(2026, 1, 1, tzinfo=UTC)
ORDERS = Table(
    "shop.orders",
    {"id": "bigint", "state": "varchar", "money": "decimal(12,2)", "day": "date", "at": "datetime(6)", "x": "double"},
    key=("id",),
)
ITEMS = Table("shop.items", {"id": "int", "n": "int"})
HEADS = {"at": 40}


class ShopSource(SimpleSource):
    """Two tables; each transaction has three changes, among them an update and a delete."""

    kind: ClassVar[str] = "simple_shop"
    tables: ClassVar[tuple[Table, ...]] = (ORDERS, ITEMS)
    unsteady: bool = False

    def head(self) -> SequenceOffset:
        return SequenceOffset(HEADS["at"])

    def read(self, start: Offset, end: Offset) -> Iterator[RowChange]:
        for n in range(self.place_of(start) + 1, self.place_of(end) + 1):
            when, offset = SINCE + timedelta(seconds=n), SequenceOffset(n)
            row = {
                "id": n,
                "state": "é",
                "money": Decimal("1.10"),
                "day": date(2026, 1, 1),
                "at": datetime(2026, 1, 2),
                "x": 0.5,
            }
            yield RowChange(offset, "shop.orders", when, after=row)
            yield RowChange(offset, "shop.items", when, after={"id": n, "n": None})
            if n % 2:
                yield RowChange(offset, "shop.orders", when, before=row, after={**row, "state": "paid"})
            else:
                yield RowChange(offset, "shop.orders", when, before=row)
            if self.unsteady:
                HEADS["read"] = HEADS.get("read", 0) + 1
                if HEADS["read"] > 20:
                    return


class TestContract(SourceContract):
    counts_lag = False
    knows_times = False

    @pytest.fixture
    def subject(self) -> SimpleSubject:
        return SimpleSubject(ShopSource())


def opened(spec: SimpleSource) -> Any:
    return spec.open(None, None)  # type: ignore[arg-type]


def whole(source: Any) -> Any:
    return source.plan(SequenceOffset(0), EVERYTHING)


def test_head_and_read_are_all_that_is_abstract() -> None:
    assert SimpleSource.__abstractmethods__ == {"head", "read"}
    assert databus.SimpleSource is SimpleSource


def test_rows_say_what_changed() -> None:
    source = opened(ShopSource())
    plan = source.plan(SequenceOffset(0), Batching(max_rows=6))
    rows = rows_of(source, plan)
    assert [(r["op"], r["table"], r["place"], r["ordinal"]) for r in rows] == [
        ("c", "orders", 1, 0), ("c", "items", 1, 1), ("u", "orders", 1, 2),
        ("c", "orders", 2, 0), ("c", "items", 2, 1), ("d", "orders", 2, 2),
    ]  # fmt: skip
    assert (plan.rows, plan.more, plan.watermark) == (6, True, SINCE + timedelta(seconds=2))
    assert rows[0]["event_id"] == "simple_shop:simple_shop/shop.orders:1:0:0"
    assert (rows[0]["key"], rows[1]["key"]) == (b'{"id":1}', None)
    (split,) = source.splits(plan, 4)
    (text,) = split.read_text({})
    assert text["after"][0].as_py().decode() == (
        '{"id":1,"state":"é","money":1.10,"day":"2026-01-01","at":"2026-01-02T00:00:00.000000","x":0.5}'
    )


def test_a_transaction_larger_than_a_batch_is_not_cut() -> None:
    plan = opened(ShopSource()).plan(SequenceOffset(0), Batching(max_rows=1))
    assert (plan.rows, plan.range.end) == (3, SequenceOffset(1))


def test_other_rows_than_planned_are_refused() -> None:
    HEADS.pop("read", None)
    source = opened(ShopSource(unsteady=True))
    plan = whole(source)
    with pytest.raises(DecodeError, match="planned were") as caught:
        rows_of(source, plan)
    assert "the same changes" in caught.value.hint


def changed(*changes: RowChange, head: int = 9) -> Any:
    class Given(SimpleSource):
        kind: ClassVar[str] = "given"
        tables: ClassVar[tuple[Table, ...]] = (ITEMS,)

        def head(self) -> SequenceOffset:
            return SequenceOffset(head)

        def read(self, start: Offset, end: Offset) -> Iterator[RowChange]:
            return iter(changes)

    return opened(Given())


def change(offset: int, table: str = "shop.items", **row: Any) -> RowChange:
    return RowChange(SequenceOffset(offset), table, SINCE, after=row or {"id": 1, "n": 1})


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ([change(2), change(1)], "behind 2"),
        ([change(2), change(3), change(2)], "behind 3"),
        ([change(10)], "a change at 10"),
        ([change(0)], "behind 0"),
        ([change(1, "shop.other")], "does not name"),
        ([change(1, id=1)], "names the columns id"),
        ([change(1, id=1, n="x")], "column n of shop.items"),
        ([RowChange(SequenceOffset(1), "shop.items", SINCE)], "neither"),
        ([RowChange(SequenceOffset(1), "shop.items", datetime(2026, 1, 1), {"id": 1, "n": 1})], "zone"),
    ],
)
def test_changes_that_cannot_be_are_named(changes: list[RowChange], said: str) -> None:
    source = changed(*changes)

    def read() -> None:
        split = source.splits(source.plan(SequenceOffset(0), EVERYTHING), 1)[0]
        list(split.read())

    with pytest.raises(DecodeError, match=said):
        read()


def test_a_place_past_the_head_is_refused() -> None:
    source = changed(head=3)
    for ask in (
        lambda: source.plan(SequenceOffset(4), EVERYTHING),
        lambda: source.reopen(OffsetRange(SequenceOffset(1), SequenceOffset(4))),
    ):
        with pytest.raises(OffsetInvalidError):
            ask()
    (finding,) = source.preflight(SequenceOffset(4))
    assert (finding.level, finding.code) == (Level.ERROR, OffsetInvalidError.code)


def test_holes_at_the_head_are_passed() -> None:
    source = changed(change(2), head=9)
    plan = whole(source)
    assert (plan.rows, plan.range.end, plan.more) == (1, SequenceOffset(9), False)
    assert changed(head=9).plan(SequenceOffset(0), EVERYTHING).empty


class Elsewhere(ShopSource):
    kind: ClassVar[str] = "elsewhere"
    conn_id: str = "shop"

    def head(self) -> SequenceOffset:
        raise SourceUnavailableError("gone", hint="Wait.")


def test_a_server_that_is_away_is_named_by_preflight() -> None:
    (finding,) = changed_connection(Elsewhere()).preflight(None)
    assert (finding.code, finding.retryable) == ("source_unavailable", True)


def changed_connection(spec: SimpleSource) -> Any:
    from databus.core.connections import Connection

    given = Connection(conn_id="shop", conn_type="http", password="hush")
    known: Any = type("Known", (), {"get": lambda self, name: given})()
    return spec.open(known, None)  # type: ignore[arg-type]


def test_a_connection_is_not_printed() -> None:
    class Reached(ShopSource):
        kind: ClassVar[str] = "reached"

    source = changed_connection(Reached(conn_id="shop"))
    (split,) = source.splits(whole(source), 1)
    assert "hush" not in repr(split)
    assert Reached.login_in_splits
    with pytest.raises(ConfigError, match="no connection"):
        _ = Reached().connection
    assert Reached(conn_id="shop").log_name() == "reached/shop/shop.orders"


def test_splits_travel() -> None:
    source = opened(ShopSource())
    (split,) = source.splits(whole(source), 8)
    assert pickle.loads(pickle.dumps(split)) == split


def test_what_a_class_does_not_say_is_named() -> None:
    class Nothing(ShopSource):
        kind: ClassVar[str] = "nothing"
        tables: ClassVar[tuple[Table, ...]] = ()

    with pytest.raises(SourceSettingError) as caught:
        opened(ShopSource()).offset_at(SINCE)
    assert "`offset_at`" in caught.value.hint
    with pytest.raises(ConfigError, match="names no table"):
        Nothing().datasets()

    class Odd(ShopSource):
        kind: ClassVar[str] = "odd"
        tables: ClassVar[tuple[Table, ...]] = (Table("a.b", {"x": "blob"}),)

    source = opened(Odd())
    with pytest.raises(ConfigError, match="unknown type 'blob'"):
        list(source.splits(whole(source), 1)[0].read())


# --- an offset class of another package ---


@dataclass(frozen=True)
class PageOffset:
    """Line of a page; pages are read one after the other."""

    page: int
    line: int
    kind: str = field(default="page", init=False)

    def to_json(self) -> dict[str, Any]:
        return {"kind": self.kind, "page": self.page, "line": self.line}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> PageOffset:
        return cls(data["page"], data["line"])

    def compare(self, other: Offset) -> Ordering:
        if not isinstance(other, PageOffset):
            return Ordering.DIVERGED
        mine, theirs = (self.page, self.line), (other.page, other.line)
        if mine == theirs:
            return Ordering.EQUAL
        return Ordering.BEFORE if mine < theirs else Ordering.AFTER

    def __str__(self) -> str:
        return f"page {self.page}, line {self.line}"


class Pages(ShopSource):
    """Ten lines a page, so many pages."""

    kind: ClassVar[str] = "pages"
    pages: int = 8

    def earliest(self) -> PageOffset:
        return PageOffset(0, 0)

    def place_of(self, offset: Offset) -> int:
        assert isinstance(offset, PageOffset)
        return offset.page * 1000 + offset.line

    def head(self) -> PageOffset:  # type: ignore[override]
        return PageOffset(self.pages, 0)

    def read(self, start: Offset, end: Offset) -> Iterator[RowChange]:
        for page in range(self.pages):
            for line in range(1, 11):
                at = PageOffset(page, line)
                if start.compare(at) is Ordering.BEFORE and at.compare(end) in (Ordering.BEFORE, Ordering.EQUAL):
                    yield RowChange(
                        at, "shop.items", SINCE + timedelta(seconds=page * 60 + line), {"id": page, "n": line}
                    )


@pytest.fixture
def pages_installed(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Register the offset class as an entry point of a package does."""
    point = EntryPoint("page", "pages_package:PageOffset", offset_kinds.GROUP)
    monkeypatch.setattr(offset_kinds, "entry_points", lambda group: [point] if group == offset_kinds.GROUP else [])
    monkeypatch.setitem(sys.modules, "pages_package", sys.modules[__name__])
    for cached in (offset_kinds.offset_class, offset_kinds._points):
        cached.cache_clear()
    yield
    monkeypatch.undo()
    for cached in (offset_kinds.offset_class, offset_kinds._points):
        cached.cache_clear()


@pytest.mark.usefixtures("pages_installed")
class TestAnOffsetOfItsOwn(SourceContract):
    counts_lag = False
    knows_times = False

    @pytest.fixture
    def subject(self) -> SimpleSubject:
        return SimpleSubject(Pages())

    def test_a_plan_reads_its_range_back(self, subject: SimpleSubject) -> None:
        source = subject.open()
        planned = source.plan(subject.begin, Batching(max_rows=15))
        assert planned is not None
        assert planned.range.end == PageOffset(1, 5)
        plan = Plan("i", "f", 1, planned.range, {}, "spec", SINCE)
        assert Plan.from_json(json.loads(json.dumps(plan.to_json()))) == plan
        assert rows_of(source, source.reopen(Plan.from_json(plan.to_json()).range)) == rows_of(source, planned)


def test_an_offset_of_its_own_needs_a_place_and_a_beginning() -> None:
    class Lacking(ShopSource):
        kind: ClassVar[str] = "lacking"

        def head(self) -> PageOffset:  # type: ignore[override]
            return PageOffset(1, 1)

    (finding,) = opened(Lacking()).preflight(None)
    assert finding.code == SourceSettingError.code
    assert "`place_of`" in finding.hint
    with pytest.raises(SourceSettingError, match="where its log begins"):
        opened(Lacking()).start_offset()
