"""What tells a log that was replaced, where neither server nor checkpoint knows everything."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast
from unittest.mock import Mock

import pytest

from databus.core.errors import SourceDivergedError
from databus.core.positions.offsets import BinlogOffset, offset_from_json
from databus.sources.mysql.failover.replaced_log import beyond_head, check_created, contradiction
from databus.sources.mysql.failover.same_log import SameLog
from databus.sources.mysql.server import MysqlServer

A, B = "3e11fa47-71ca-11e1-9e33-c80aa9429562", "3e11fa47-71ca-11e1-9e33-c80aa9429563"


@pytest.mark.parametrize(
    ("flavor", "checkpoint", "here", "contradicts"),
    [
        ("mysql", f"{A}:1-9", f"{A}:1-9", False),
        ("mysql", f"{A}:1-9", f"{A}:1-10", True),
        ("mysql", f"{A}:1-9", f"{A}:5-9", False),  # the log began at gtid_purged
        ("mysql", f"{A}:1-4:7-9", f"{A}:1-9", False),  # the flow began while 5 and 6 were being committed
        ("mysql", f"{A}:1-9", f"{A}:1-9,{B}:1", False),  # SET GLOBAL gtid_purged='+…', and a rotation
        ("mysql", f"{A}:1-9,{B}:1-3", f"{A}:1-9", False),
        ("mariadb", "0-1-9", "0-1-9", False),
        ("mariadb", "0-1-9", "0-1-8", True),
        ("mariadb", "0-1-9", "0-2-9", True),
        ("mariadb", "0-1-9,1-1-5", "0-1-9", False),  # FLUSH BINARY LOGS DELETE_DOMAIN_ID
        ("mariadb", "0-1-9", "0-1-9,1-1-1", False),  # the flow began where the server could not tell
        ("mariadb", "0-1-9,1-1-1", "0-1-9,1-1-2", True),
    ],
)
def test_gtids_of_one_history_do_not_contradict(flavor: str, checkpoint: str, here: str, contradicts: bool) -> None:
    offset = BinlogOffset("mysql-bin.000002", 400, checkpoint, flavor, "s")
    assert bool(contradiction(offset, here)) is contradicts


@pytest.mark.parametrize(
    ("flavor", "checkpoint", "head", "beyond"),
    [
        ("mysql", f"{A}:1-9", f"{A}:1-9", ""),
        ("mysql", f"{A}:1-9", f"{A}:1-4", f"{A}:5-9"),
        ("mysql", f"{A}:1-9", "", f"{A}:1-9"),
        ("mariadb", "0-1-9", "0-2-12", ""),
        ("mariadb", "0-1-9,1-1-5", "0-1-9", ""),  # FLUSH BINARY LOGS DELETE_DOMAIN_ID
        ("mariadb", "0-1-9", "0-1-3", "0-1-9"),
    ],
)
def test_what_a_server_never_executed_is_named(flavor: str, checkpoint: str, head: str, beyond: str) -> None:
    why = beyond_head(BinlogOffset("mysql-bin.000002", 400, checkpoint, flavor, "s"), head)
    assert (beyond in why) if beyond else why == ""


@pytest.mark.parametrize(("head", "asked"), [(f"{A}:1-9", 0), (f"{A}:1-12", 0), (f"{A}:1-8", 1)])
def test_at_the_head_a_file_is_looked_at_only_where_the_server_lacks_transactions(head: str, asked: int) -> None:
    """Every look at an idle flow compares its place: reading up to a gigabyte of log each time is too much."""
    server, positions = SimpleNamespace(flavor="mysql", place="here"), Mock()
    standing = BinlogOffset("mysql-bin.000002", 400, f"{A}:1-9")  # of a version that did not know created_s
    SameLog(cast("Any", server), positions, Mock(), "f").check_at_head(standing, replace(standing, gtids=head))
    assert positions.check_history.call_count == asked


def test_files_are_told_apart_by_when_they_were_begun() -> None:
    offset = BinlogOffset("mysql-bin.000002", 400, created_s=1_700_000_000)
    for file, created_s in (("mysql-bin.000002", 1_700_000_000), ("mysql-bin.000002", 0), ("mysql-bin.000003", 7)):
        check_created("here", offset, (file, created_s), "f")
    with pytest.raises(
        SourceDivergedError,
        match=r"begun at 2023-11-14 22:13:21 UTC, that one at 2023-11-14 22:13:20 UTC.*checkpoint skip f --new-log",
    ):
        check_created("here", offset, ("mysql-bin.000002", 1_700_000_001), "f.replay-1")


def test_an_offset_of_an_earlier_version_is_read_and_is_the_same_place() -> None:
    offset = BinlogOffset("mysql-bin.000002", 400, created_s=1_700_000_000)
    stored = offset.to_json()
    assert offset_from_json(stored).to_json() == stored
    del stored["created_s"], stored["v"]
    assert offset_from_json(stored) == offset
    assert offset_from_json(stored).to_json() == stored


@pytest.mark.parametrize(("told", "folds"), [({}, False), ({"lower_case_table_names": "1"}, True)])
def test_a_server_that_does_not_tell_how_it_writes_names_writes_them_as_typed(
    told: dict[str, str], folds: bool
) -> None:
    """Some that only pass the log on know few variables."""
    server = MysqlServer.__new__(MysqlServer)
    server._facts = {"version": "8.0", **told}
    assert server.folds_names is folds
