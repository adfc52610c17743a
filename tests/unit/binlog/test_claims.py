"""The store of large values: content-addressed, whole or not there, kept long enough, and read back with its hash."""

from __future__ import annotations

import hashlib
import json
import os
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from databus.binlog import claims
from databus.binlog.segments.large_values import (
    LEAST_AGE_S,
    LargeValueReference,
    LargeValueStore,
    read_large_value,
)
from databus.binlog.segments.retention import KeepLimit
from databus.core import errors
from databus.core.errors import LargeValueError
from databus.core.state import evidence

DAY = 86_400.0
VALUE = bytes(range(256)) * 4096


def put(store: LargeValueStore, value: bytes, charset: str | None = None) -> dict[str, Any]:
    text = store.put(np.frombuffer(value, np.uint8), charset)
    assert isinstance(text, LargeValueReference)
    found: dict[str, Any] = json.loads(text)
    return found


def files(root: Path) -> list[Path]:
    return sorted(p for p in root.rglob("*") if p.is_file())


def aged(reference: dict[str, Any], days: float) -> Path:
    path = Path(reference["claim"].removeprefix("file://"))
    os.utime(path, (time.time() - days * DAY,) * 2)
    return path


def test_a_claim_says_where_and_what_it_is(tmp_path: Path) -> None:
    reference = put(LargeValueStore(str(tmp_path)), VALUE, "latin1")
    digest = hashlib.sha256(VALUE).hexdigest()
    place = tmp_path / ".claims" / digest[:2] / digest
    assert reference == {"claim": f"file://{place}", "bytes": len(VALUE), "sha256": digest, "charset": "latin1"}
    assert place.read_bytes() == VALUE
    assert b"".join(read_large_value(json.dumps(reference))) == b"".join(read_large_value(reference["claim"])) == VALUE
    assert "charset" not in put(LargeValueStore(str(tmp_path)), b"bytes")


def test_again_is_the_same_claim_and_only_makes_it_younger(tmp_path: Path) -> None:
    store = LargeValueStore(str(tmp_path))
    first = put(store, VALUE)
    path = aged(first, 30)
    number = path.stat().st_ino
    assert put(LargeValueStore(str(tmp_path)), VALUE) == first
    assert files(tmp_path) == [path]
    assert path.stat().st_ino == number
    assert time.time() - path.stat().st_mtime < DAY


def test_what_a_crash_left_half_is_written_anew(tmp_path: Path) -> None:
    store = LargeValueStore(str(tmp_path))
    path = aged(put(store, VALUE), 0)
    path.write_bytes(VALUE[:-1])
    put(store, VALUE)
    assert path.read_bytes() == VALUE
    left = path.with_name(".unfinished")
    left.write_bytes(b"x")
    assert store.prune(KeepLimit()) == []
    os.utime(left, (time.time() - 2 * DAY,) * 2)
    assert [c.path for c in store.prune(KeepLimit())] == [str(left)]
    assert files(tmp_path) == [path]


@pytest.mark.parametrize("limit", ["1d", "1KB", "8d", "400KB"])
def test_the_limit_takes_the_oldest_but_none_of_the_last_week(tmp_path: Path, limit: str) -> None:
    store = LargeValueStore(str(tmp_path))
    paths = {days: aged(put(store, bytes([days]) * 300_000), days) for days in (1, 6, 20, 60)}
    gone = {c.path for c in store.prune(KeepLimit.parse(limit))}
    assert gone == {str(paths[20]), str(paths[60])}
    assert set(files(tmp_path)) == {paths[1], paths[6]}
    assert LEAST_AGE_S == 7 * DAY


def test_without_a_limit_all_stay(tmp_path: Path) -> None:
    store = LargeValueStore(str(tmp_path))
    path = aged(put(store, VALUE), 1000)
    assert store.prune(KeepLimit.parse("")) == []
    assert path.exists()


def test_a_damaged_or_missing_claim_is_named(tmp_path: Path) -> None:
    reference = put(LargeValueStore(str(tmp_path)), VALUE)
    path = aged(reference, 0)
    path.write_bytes(VALUE[:-1] + b"?")
    with pytest.raises(LargeValueError, match="do not match") as damaged:
        list(read_large_value(reference["claim"]))
    assert damaged.value.code == "claim_damaged"
    path.unlink()
    with pytest.raises(LargeValueError, match="is gone") as missing:
        list(read_large_value(reference["claim"]))
    assert missing.value.code == "claim_missing"
    for wrong in ("", "{}", '{"claim": 5}', "file:///etc/passwd", "{broken"):
        with pytest.raises(LargeValueError, match="refers to no large value"):
            list(read_large_value(wrong))


def test_a_remote_store_holds_claims_as_well(tmp_path: Path) -> None:
    import fsspec

    root = f"memory://{tmp_path.name}"
    try:
        reference = put(LargeValueStore(root), VALUE)
        assert reference["claim"].startswith("memory://")
        assert put(LargeValueStore(root), VALUE) == reference
        assert b"".join(read_large_value(reference["claim"])) == VALUE
        assert [c.size_bytes for c in LargeValueStore(root).list()] == [len(VALUE)]
        later = time.time() + 30 * DAY
        assert len(LargeValueStore(root).prune(KeepLimit.parse("1d"), later)) == 1
        assert LargeValueStore(root).list() == []
    finally:
        fsspec.filesystem("memory").store.clear()


def test_former_names_work_for_one_version(tmp_path: Path) -> None:
    reference = put(LargeValueStore(str(tmp_path)), VALUE)
    with pytest.warns(FutureWarning, match="read_claim is now read_large_value"):
        assert b"".join(claims.read_claim(reference["claim"])) == VALUE
    assert errors.LargeValueError is LargeValueError
    assert evidence.SinkClaim is evidence.CommittedState
