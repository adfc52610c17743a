"""Places of a real server's log: where a flow may begin, and which are refused by name before anything is read."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import pytest

from databus.core.errors import (
    OffsetInvalidError,
    OffsetPurgedError,
    SourceDivergedError,
)
from databus.core.findings import Level
from databus.core.positions.offsets import BinlogOffset, Ordering, offset_from_json
from tests.contract.source_contract import EVERYTHING, IMPATIENT, rows_of
from tests.integration.binlog_shop import Shop

pytestmark = pytest.mark.integration


def test_starts(shop: Shop) -> None:
    source = shop.open()
    # "earliest" is to mean this test's changes, not those of all tests before it on this server.
    shop.sql("FLUSH BINARY LOGS")
    begin = source.latest_offset()
    shop.purge_to(begin.file)
    shop.grow()
    whole = source.plan(begin, EVERYTHING)
    part = source.plan(begin, EVERYTHING.model_copy(update={"max_rows": 50}))
    assert whole is not None
    assert part is not None
    middle = part.range.end
    assert isinstance(middle, BinlogOffset)
    assert shop.open(start=f"{middle.file}:{middle.pos}").start_offset() == middle
    assert shop.open(start="latest").start_offset().gtids == whole.range.end.to_json()["gtids"]
    earliest = shop.open(start="earliest").start_offset()
    assert earliest.compare(middle) is Ordering.BEFORE
    assert source.plan(earliest, EVERYTHING.model_copy(update={"max_rows": 1})) is not None
    # A GTID start may lie in a later file than the boundary it names, as long as nothing lies in between.
    by_gtid = shop.open(start=f"gtid:{middle.gtids}").start_offset()
    assert by_gtid.gtids == middle.gtids
    rest = source.plan(middle, EVERYTHING)
    again = source.plan(by_gtid, EVERYTHING)
    assert rest is not None
    assert again is not None
    assert [r["event_id"] for r in rows_of(source, rest)] == [r["event_id"] for r in rows_of(source, again)]
    source.close()


def test_gtid_sets_that_no_place_stands_for_are_refused(make_shop: Callable[[str, str], Shop]) -> None:
    shop = make_shop("mysql", "numba")
    shop.grow()
    head = shop.open().latest_offset()
    uuid, _, numbers = head.gtids.partition(":")
    last = int(numbers.split("-")[-1])
    with pytest.raises(OffsetInvalidError, match="both sides"):
        shop.open(start=f"gtid:{uuid}:1-{last - 5}:{last - 3}-{last - 2}").start_offset()
    with pytest.raises(SourceDivergedError, match="never executed"):
        shop.open(start=f"gtid:{uuid}:1-{last + 10}").start_offset()


def ahead_of(gtids: str) -> str:
    """Return GTIDs that no server has yet."""
    return gtids + "00000"


def test_a_file_that_ends_before_a_place_that_was_read_has_lost_its_end(shop: Shop) -> None:
    """After a crash without sync_binlog=1: the same file, begun at the same time."""
    shop.grow()
    assert shop.begin.created_s
    with pytest.raises(SourceDivergedError, match="the log has lost its end") as caught:
        shop.open().plan(dataclasses.replace(shop.begin, pos=shop.begin.pos + (1 << 30)), IMPATIENT)
    assert f"{shop.begin.file}:" in caught.value.hint
    assert "--new-log" in caught.value.hint


@pytest.mark.parametrize(
    ("change", "error"),
    [
        (lambda o: {"pos": o.pos + 3}, OffsetInvalidError),
        (lambda o: {"pos": o.pos + (1 << 30), "created_s": 0}, OffsetInvalidError),
        (lambda o: {"file": f"{o.file.rpartition('.')[0]}.099999"}, SourceDivergedError),
        (lambda _: {"server": "another", "gtids": ""}, SourceDivergedError),
        (lambda o: {"server": "another", "gtids": ahead_of(o.gtids)}, SourceDivergedError),
    ],
)
def test_offsets_of_no_transaction_are_refused(
    shop: Shop, change: Callable[[BinlogOffset], dict[str, Any]], error: type
) -> None:
    shop.grow()
    source = shop.open()
    bad = dataclasses.replace(shop.begin, **change(shop.begin))
    with pytest.raises(error, match=shop.connection.conn_id) as caught:
        source.plan(bad, IMPATIENT)
    assert caught.value.hint  # type: ignore[attr-defined]
    findings = [f for f in source.preflight(bad) if f.subject.endswith("start")]
    assert [f.level for f in findings] == [
        Level.OK if change(shop.begin).get("pos") == shop.begin.pos + 3 else Level.ERROR
    ]
    assert shop.dump_threads() == []
    source.close()


def test_place_inside_a_transaction_is_refused(shop: Shop) -> None:
    shop.grow()
    source = shop.open()
    events = shop.sql(f"SHOW BINLOG EVENTS IN '{shop.begin.file}' FROM {shop.begin.pos} LIMIT 30")
    inside = next(
        r
        for r in events
        if str(r[2]) in ("Table_map", "Query") and "BEGIN" not in str(r[5]) and "CREATE" not in str(r[5])
    )
    with pytest.raises(OffsetInvalidError, match="inside a transaction"):
        source.plan(dataclasses.replace(shop.begin, pos=int(inside[1]), gtids=""), IMPATIENT)
    source.close()


def test_purged_log_is_named(shop: Shop) -> None:
    shop.grow()
    source = shop.open()
    last = source.latest_offset().file
    shop.purge_to(last)
    with pytest.raises(OffsetPurgedError, match=rf"{shop.begin.file}:{shop.begin.pos} to {last}:4"):
        source.plan(shop.begin, IMPATIENT)
    source.close()


def begin_anew(shop: Shop) -> BinlogOffset:
    """Replace the log, in a later second than that in which the one before was begun."""
    begun = int(shop.sql("SELECT UNIX_TIMESTAMP()")[0][0])
    shop.wait_for(lambda: int(shop.sql("SELECT UNIX_TIMESTAMP()")[0][0]) > begun)
    shop.sql("RESET MASTER")
    return shop.open().latest_offset()


def write(shop: Shop, key: int, fill: int = 0) -> int:
    """Write one row of a key with four digits and so many bytes more; returns where its transaction ends."""
    shop.sql(f"INSERT INTO {shop.name}.t VALUES ({key}, REPEAT('x', {fill:05d}))")
    return shop.open().latest_offset().pos


_BEFORE = {"fewer before it": 3, "as many before it": 5, "more before it": 9}


@pytest.mark.parametrize(
    ("before", "known"),
    [*((before, "time") for before in _BEFORE), ("fewer before it", "gtids"), ("more before it", "gtids")],
)
def test_a_log_that_replaced_another_is_noticed_though_it_is_longer(shop: Shop, before: str, known: str) -> None:
    shop.sql(f"CREATE TABLE {shop.name}.t (id INT PRIMARY KEY, v VARBINARY(60000))")
    begin = begin_anew(shop)
    for key in range(1000, 1005):
        write(shop, key, 1000)
    source = shop.open()
    plan = source.plan(begin, EVERYTHING)
    assert plan is not None
    assert len(rows_of(source, plan)) == 5
    source.close()
    end = offset_from_json(plan.range.end.to_json())
    assert isinstance(end, BinlogOffset)
    if known == "gtids":  # as a version before this wrote offsets
        end = dataclasses.replace(end, created_s=0)
    # Another log, in which a transaction ends at the same place of the same file.
    start = begin_anew(shop).pos
    size = write(shop, 2000) - start
    for key in range(2001, 2000 + _BEFORE[before] - 1):
        write(shop, key)
    assert write(shop, 2999, end.pos - shop.open().latest_offset().pos - size) == end.pos
    write(shop, 3000)
    source = shop.open()
    with pytest.raises(SourceDivergedError, match="the log was replaced") as caught:
        source.plan(end, IMPATIENT)
    assert "RESET MASTER" in caught.value.hint
    told = [(f.level, f.code) for f in source.preflight(end) if f.subject.endswith("start")]
    assert told == [(Level.ERROR, "source_diverged")]
    source.close()


def test_a_log_without_gtids_that_was_replaced_is_noticed(make_shop: Callable[[str, str], Shop]) -> None:
    shop = make_shop("mariadb", "numba")
    shop.sql(f"CREATE TABLE {shop.name}.t (id INT PRIMARY KEY, v VARBINARY(60000))")
    begin = begin_anew(shop)
    write(shop, 1000)
    source = shop.open()
    plan = source.plan(begin, EVERYTHING)
    assert plan is not None
    source.close()
    assert isinstance(plan.range.end, BinlogOffset)
    end = dataclasses.replace(plan.range.end, gtids="")
    begin_anew(shop)
    assert write(shop, 2000) == end.pos
    write(shop, 2001)
    source = shop.open()
    with pytest.raises(SourceDivergedError, match=rf"the log was replaced: {end.file}:{end.pos} .* was begun at"):
        source.plan(end, IMPATIENT)
    source.close()
