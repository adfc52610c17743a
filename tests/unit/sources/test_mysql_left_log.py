"""What is left of a log tells whether a place that it deleted can be of it: by GTIDs, else by when files were begun."""

from __future__ import annotations

import struct

import pytest

from databus.binlog.log.transactions.gtid_codec import decode_gtid_list
from databus.core.errors import DecodeError
from databus.core.positions.offsets import BinlogOffset
from databus.sources.mysql.failover.left_log import GtidList, LeftLog

A, B = "3e11fa47-71ca-11e1-9e33-c80aa9429562", "3e11fa47-71ca-11e1-9e33-c80aa9429563"


def place(gtids: str, flavor: str = "mysql", number: int = 2, created_s: int = 0) -> BinlogOffset:
    return BinlogOffset(f"bin.{number:06d}", 400, gtids, flavor, "s", created_s=created_s)


@pytest.mark.parametrize(
    ("checkpoint", "before", "purged", "head", "again"),
    [
        (f"{A}:1-9", f"{A}:1-12", f"{A}:1-12", f"{A}:1-20", ""),
        (f"{A}:1-9", f"{A}:1-9", f"{A}:1-9", f"{A}:1-9", ""),  # rotations alone were deleted
        (f"{A}:1-9", f"{A}:1-4", f"{A}:1-4", f"{A}:1-20", f"{A}:5-9"),
        (f"{A}:1-9", "", "", f"{A}:1-20", f"{A}:1-9"),
        (f"{A}:1-9,{B}:1-3", f"{A}:1-12", f"{A}:1-12,{B}:1-3", f"{A}:1-20,{B}:1-3", ""),  # set by hand, in no file
        (f"{A}:1-9,{B}:1-3", f"{A}:1-12", f"{A}:1-12", f"{A}:1-20,{B}:1-3", f"{B}:1-3"),
        (f"{A}:1-9", f"{A}:1-12", f"{A}:1-4", f"{A}:1-20", ""),  # files that were deleted by hand: purged is late
        (f"{A}:1-9:x:1-2", f"{A}:1-12", f"{A}:1-12", f"{A}:1-20:x:1-5", f"{A}:x:1-2"),
        ("", f"{A}:1-4", f"{A}:1-4", f"{A}:1-20", ""),
    ],
)
def test_a_mysql_log_that_is_left_holds_nothing_that_was_executed_before_the_place(
    checkpoint: str, before: str, purged: str, head: str, again: str
) -> None:
    why = LeftLog(place(before, number=5), head, purged=purged).contradicts(place(checkpoint))
    assert why.startswith(f"{again}, executed before") if again else why == ""


@pytest.mark.parametrize(
    ("checkpoint", "listed", "before", "head", "absent"),
    [
        ("0-1-9", {(0, 1): 12}, "0-1-12", "0-1-20", ""),
        ("0-1-9", {(0, 1): 9}, "0-1-9", "0-1-9", ""),
        ("0-1-9", {(0, 1): 9, (0, 2): 14}, "0-2-14", "0-2-20", ""),  # another server went on
        ("0-1-9", {(0, 1): 4}, "0-1-4", "0-1-20", "0-1-9"),
        ("0-1-9", {(0, 1): 4, (0, 2): 14}, "0-2-14", "0-2-20", "0-1-9"),  # another server took its numbers
        ("0-1-9", {(0, 2): 14}, "0-2-14", "0-2-20", "0-1-9"),
        ("0-1-9,7-1-5", {(0, 1): 12, (7, 1): 5}, "0-1-12,7-1-5", "0-1-20,7-1-5", ""),
        ("0-1-9,7-1-5", {(0, 1): 12, (7, 1): 3}, "0-1-12,7-1-3", "0-1-20,7-1-8", "7-1-5"),
        ("0-1-9,7-1-5", {(0, 1): 12}, "0-1-12", "0-1-20,7-1-8", "7-1-5"),
        ("0-1-9,7-1-5", {(0, 1): 12}, "0-1-12", "0-1-20", ""),  # FLUSH BINARY LOGS DELETE_DOMAIN_ID
        ("0-1-9", {(0, 1): 12, (7, 1): 3}, "0-1-12,7-1-3", "0-1-20,7-1-8", ""),  # a new domain
        ("0-1-9", None, "0-1-12", "0-1-20", ""),
        ("0-1-9", None, "0-2-12", "0-2-20", ""),
        ("0-1-9", None, "0-2-9", "0-2-20", "0-1-9"),
        ("0-1-9", None, "", "0-1-20", "0-1-9"),
    ],
)
def test_a_mariadb_log_that_is_left_has_passed_the_place_in_each_domain(
    checkpoint: str, listed: GtidList | None, before: str, head: str, absent: str
) -> None:
    left = LeftLog(place(before, "mariadb", 5), head, listed=listed)
    why = left.contradicts(place(checkpoint, "mariadb"))
    assert why.startswith(f"{absent}, executed before") if absent else why == ""


@pytest.mark.parametrize(
    ("place_s", "left_s", "differs"),
    [(7_000, 7_500, False), (7_000, 6_950, False), (7_000, 6_900, True), (0, 6_900, False), (7_000, 0, False)],
)
def test_without_gtids_a_later_file_was_begun_later(place_s: int, left_s: int, differs: bool) -> None:
    left = LeftLog(place("", number=5, created_s=left_s), "")
    assert bool(left.contradicts(place("", created_s=place_s))) is differs


def test_a_gtid_list_is_read_as_the_server_writes_it() -> None:
    entries = {(0, 1): 1 << 40, (7, 4_000_000_000): 3}
    body = struct.pack("<I", len(entries) | 1 << 29)
    body += b"".join(struct.pack("<IIQ", *key, number) for key, number in entries.items())
    assert decode_gtid_list(body) == decode_gtid_list(body + b"crc!") == entries
    with pytest.raises(DecodeError, match="2 entries is cut short"):
        decode_gtid_list(body[:-8])
