"""Rows too large for a VARIANT, from real servers; and a segment store whose disk fills up.

`DATABUS_TEST_LARGE_BLOB_MIB=1000` measures the long form: a row event of 1,000 MiB in packets of 16 MiB.
"""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from databus.binlog.segments.large_values import read_large_value
from databus.core.errors import SegmentStoreFullError
from tests.contract.source_contract import EVERYTHING, changes, rows_of
from tests.integration.binlog_shop import Shop

pytestmark = pytest.mark.integration

BLOB_MIB = int(os.environ.get("DATABUS_TEST_LARGE_BLOB_MIB", "72"))
MEMORY_MIB = 512


@pytest.fixture(params=["mysql", "mariadb"])
def shop(make_shop: Callable[[str, str], Shop], request: pytest.FixtureRequest) -> Shop:
    return make_shop(str(request.param), "numba")


def mounted(path: Path, size_mib: int, *, again: bool = False) -> bool:
    options = f"{'remount,' if again else ''}size={size_mib}m"
    done = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", options, "databus", str(path)], check=False, capture_output=True
    )
    return done.returncode == 0


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 8 MiB where the shop's sources keep their segments."""
    path = tmp_path / "segments"
    path.mkdir()
    if not mounted(path, 8):
        pytest.skip("mounting a tmpfs is not allowed here; tests/unit/sources/test_row_claims.py limits file sizes")
    try:
        yield path
    finally:
        subprocess.run(["umount", "-l", str(path)], check=True)


def read_apart(shop: Shop, store: Path) -> dict[str, Any]:
    """Plan and read what the shop wrote in a process of its own."""
    address = f"{shop.connection.host}:{shop.connection.port}"
    argv = [sys.executable, "-m", "tests.integration.large_row_reader", address, shop.name, str(store)]
    done = subprocess.run([*argv, json.dumps(shop.begin.to_json())], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def claim_of(row: dict[str, Any], image: str) -> tuple[int, str]:
    """Return length and hash of the bytes that a row's reference leads to."""
    hashed, size = hashlib.sha256(), 0
    for piece in read_large_value(row[image]["b"]):
        hashed.update(piece)
        size += len(piece)
    return size, hashed.hexdigest()


def test_a_value_larger_than_memory_is_claimed_on_its_way(shop: Shop, tmp_path: Path) -> None:
    shop.sql("SET GLOBAL max_allowed_packet = 1073741824")
    shop.reconnect()
    table = f"{shop.name}.large"
    shop.sql(f"CREATE TABLE {table} (id INT PRIMARY KEY, b LONGBLOB, note VARCHAR(20))")
    shop.sql(
        f"INSERT INTO {table} VALUES (1, REPEAT('0123456789abcdef', {BLOB_MIB << 16}), 'large'), (2, 'x', 'small')"
    )
    ((size, digest),) = shop.sql(f"SELECT LENGTH(b), SHA2(b, 256) FROM {table} WHERE id = 1")
    shop.sql(f"DELETE FROM {table}")
    found = read_apart(shop, tmp_path / "segments")
    first, small, deleted, _ = found["rows"]
    assert [row["op"] for row in found["rows"]] == ["c", "c", "d", "d"]
    assert (first["flags"], deleted["flags"]) == (["after.b:claimed"], ["before.b:claimed"])
    assert claim_of(first, "after") == claim_of(deleted, "before") == (size, digest)
    assert first["after"]["note"] == "large"
    assert small["after"] == {"id": 2, "b": "eA==", "note": "small"}
    assert found["bytes"] > 2 * size
    assert found["peak_mib"] <= MEMORY_MIB


def test_a_full_store_stops_by_name_and_goes_on_when_there_is_space(shop: Shop, small_disk: Path) -> None:
    table = f"{shop.name}.t"
    shop.sql(f"CREATE TABLE {table} (id INT PRIMARY KEY, b LONGBLOB)")
    for number in range(4):
        shop.sql(f"INSERT INTO {table} VALUES ({number}, REPEAT('{number}', {3 << 20}))")
    source = shop.open()
    with pytest.raises(SegmentStoreFullError) as full:
        source.plan(shop.begin, EVERYTHING)
    assert full.value.retryable
    assert full.value.code == "segment_store_full"
    for part in (str(small_disk), " bytes were to be written there, ", " are free"):
        assert part in full.value.message
    left = [p for p in small_disk.rglob("*") if p.is_file() and ".schema_history" not in p.parts]
    assert left == []  # a half range takes no space and is never found

    assert mounted(small_disk, 40, again=True)
    plan = source.plan(shop.begin, EVERYTHING)
    assert plan is not None
    rows = rows_of(source, plan)
    assert changes(rows) == plan.rows == 4

    # The plan is in ZooKeeper, its segments are lost, and the disk is full again: the same plan waits for space.
    store = source._stores.segments()
    store.delete(plan.range)
    ballast = small_disk / "ballast"
    ballast.write_bytes(b"x" * (30 << 20))
    with pytest.raises(SegmentStoreFullError):
        source.reopen(plan.range)
    ballast.unlink()
    assert source.reopen(plan.range) == plan
    assert rows_of(source, plan) == rows
    source.close()
