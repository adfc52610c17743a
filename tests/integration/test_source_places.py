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
from databus.core.offsets import BinlogOffset, Ordering
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


@pytest.mark.parametrize(
    ("change", "error"),
    [
        (lambda o: {"pos": o.pos + 3}, OffsetInvalidError),
        (lambda o: {"pos": o.pos + (1 << 30)}, OffsetInvalidError),
        (lambda o: {"file": f"{o.file.rpartition('.')[0]}.099999"}, OffsetInvalidError),
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
        source.plan(dataclasses.replace(shop.begin, pos=int(inside[1])), IMPATIENT)
    source.close()


def test_purged_log_is_named(shop: Shop) -> None:
    shop.grow()
    source = shop.open()
    last = source.latest_offset().file
    shop.purge_to(last)
    with pytest.raises(OffsetPurgedError, match=rf"{shop.begin.file}:{shop.begin.pos} to {last}:4"):
        source.plan(shop.begin, IMPATIENT)
    source.close()
