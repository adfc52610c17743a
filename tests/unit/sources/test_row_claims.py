"""Rows that are too large: their largest values go to the segment store, the rows go on with references.

Oracle: what the row would hold without a limit. Each value must be in the row or, byte for byte, in the claim.
"""

from __future__ import annotations

import json
import resource
import signal
import struct
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from databus.binlog.decoding import piecewise
from databus.binlog.log.capture import TableCapture
from databus.binlog.log.scan import scan_events
from databus.binlog.segments.large_values import read_large_value
from databus.core.errors import DecodeError, SegmentStoreFullError
from databus.rows.image_form import VARIANT_FORM, ImageForm, json_form
from databus.rows.variant import images as variant
from databus.sources.mysql.row_filters import ModuloPartition, RowFilters
from databus.sources.mysql.segments import rows as reading
from databus.sources.mysql.segments.address import LargeValueRules, SegmentAddress
from databus.sources.mysql.segments.split import SegmentSplit
from tests.unit.binlog.log_encoder import Col, Log, int_col

LIMIT = 4000
BLOB, TEXT, JSON = 63, 255, 63
COLUMNS = [
    int_col(),
    Col("b", 252, b"\x04", collation=BLOB),
    Col("t", 252, b"\x04", collation=TEXT),
    Col("latin", 252, b"\x04", collation=8),
    Col("j", 245, b"\x04"),
]


def number(value: int) -> bytes:
    return struct.pack("<i", value)


def long(data: bytes) -> bytes:
    return struct.pack("<I", len(data)) + data


def document(text: str) -> bytes:
    data = text.encode()
    size = bytes([len(data) & 0x7F | 0x80, len(data) >> 7]) if len(data) > 127 else bytes([len(data)])
    return long(b"\x0c" + size + data)


def image(key: int, blob: bytes, text: str = "", latin: str = "", words: str = "") -> list[bytes | None]:
    return [number(key), long(blob), long(text.encode()), long(latin.encode("latin-1")), document(words)]


def log_of(*images: Sequence[bytes | None], kind: int = 30) -> Log:
    return Log().gtid().begin().table_map(9, "t9", COLUMNS).rows(kind, 9, len(COLUMNS), images).xid()


def read(
    log: Log, root: Path | None, form: ImageForm | None = None, filters: RowFilters | None = None
) -> list[dict[str, Any]]:
    data = np.frombuffer(bytes(log.data), np.uint8)
    split = SegmentSplit(
        (), TableCapture(("shop.*",)), (), "srv", filters=filters or RowFilters(),
        large_values=None if root is None else LargeValueRules(str(root), LIMIT),
    )  # fmt: skip
    address = SegmentAddress("here", "mysql-bin.000007", 4, planned(log))
    found = [r for b in reading.segment_rows(data, address, split, form or json_form({})) for r in b.to_pylist()]
    for row in found:
        for name in ("before", "after"):
            if isinstance(row[name], bytes):
                row[name] = json.loads(row[name])
    return found


def planned(log: Log) -> int:
    data = np.frombuffer(bytes(log.data), np.uint8)
    return sum(scan_events(data, file="mysql-bin.000007").rows.values())


def claims(root: Path) -> list[Path]:
    return sorted(p for p in root.rglob("*") if p.is_file())


def claimed(reference: str) -> bytes:
    return b"".join(read_large_value(reference))


def test_a_value_over_the_limit_is_claimed_and_the_rest_of_the_row_stays(tmp_path: Path) -> None:
    value = bytes(range(256)) * 40
    (row,) = read(log_of(image(1, value, "small", "é")), tmp_path)
    reference = row["after"].pop("b")
    assert row["after"] == {"id": 1, "t": "small", "latin": "é", "j": '""'}
    assert row["flags"] == ["after.b:claimed"]
    assert json.loads(reference).keys() == {"claim", "bytes", "sha256"}
    assert claimed(reference) == value


@pytest.mark.parametrize(
    ("values", "column", "charset", "stored"),
    [
        ({"text": "ж" * 3000}, "t", "utf8mb4", "ж".encode() * 3000),
        ({"latin": "é" * 5000}, "latin", "latin1", b"\xe9" * 5000),
        ({"words": "w" * 5000}, "j", "utf8mb4", b'"' + b"w" * 5000 + b'"'),
    ],
)
def test_text_says_its_character_set(
    tmp_path: Path, values: dict[str, str], column: str, charset: str, stored: bytes
) -> None:
    (row,) = read(log_of(image(1, b"", **values)), tmp_path)
    reference = row["after"][column]
    assert json.loads(reference)["charset"] == charset
    assert claimed(reference) == stored
    assert row["flags"] == [f"after.{column}:claimed"]


def test_a_row_of_many_values_gives_up_its_largest_until_it_fits(tmp_path: Path) -> None:
    rows = read(
        log_of(
            image(1, b"b" * 1500, "t" * 3000, "l" * 2000),
            image(2, b"b" * 1500, "t" * 1400, "l" * 1000),
            image(3, b"b" * 3900, "t" * 3900, "l" * 3900),
        ),
        tmp_path,
    )
    assert [row["flags"] for row in rows] == [["after.t:claimed"], None, ["after.b:claimed", "after.t:claimed"]]
    assert claimed(rows[0]["after"]["t"]) == b"t" * 3000
    assert rows[0]["after"]["latin"] == "l" * 2000
    assert rows[2]["after"]["latin"] == "l" * 3900


def test_bytes_that_are_no_text_are_claimed_as_bytes(tmp_path: Path) -> None:
    images = image(1, b"")
    images[2] = long(b"\xff" * 3990 + b"ok" * 20)
    (row,) = read(log_of(images), tmp_path)
    assert claimed(row["after"]["t"]) == b"\xff" * 3990 + b"ok" * 20


def test_both_images_of_an_update_and_a_repetition_share_a_claim(tmp_path: Path) -> None:
    value = b"same" * 2000
    log = log_of(image(1, value), image(1, value, "new"), image(2, value), image(2, b"other" * 2000), kind=31)
    rows = read(log, tmp_path)
    assert [row["flags"] for row in rows] == [["before.b:claimed", "after.b:claimed"]] * 2
    assert rows[0]["before"]["b"] == rows[0]["after"]["b"] == rows[1]["before"]["b"]
    assert claimed(rows[1]["after"]["b"]) == b"other" * 2000
    before = claims(tmp_path)
    assert len(before) == 2
    assert read(log, tmp_path) == rows
    assert claims(tmp_path) == before


def test_pieces_and_forms_say_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = log_of(*(image(n, bytes([n]) * (500 * n), "t" * 300 * n) for n in range(20)))
    whole, variants = read(log, tmp_path), read(log, tmp_path, VARIANT_FORM)
    assert [row["flags"] for row in whole] == [row["flags"] for row in variants]
    monkeypatch.setattr(reading, "_WHOLE_BYTES", 0)
    monkeypatch.setattr(piecewise, "PIECE_BYTES", 700)
    assert read(log, tmp_path) == whole
    assert read(log, tmp_path, VARIANT_FORM) == variants


def test_what_a_row_filter_leaves_out_writes_no_claim(tmp_path: Path) -> None:
    even = RowFilters((ModuloPartition(tables=("shop.*",), column="id", modulus=2, remainders=(0,)),))
    log = log_of(image(1, b"odd" * 2000, "o" * 3900), image(2, b"even" * 2000))
    rows = read(log, tmp_path, filters=even)
    assert [row["op"] for row in rows] == ["f", "c"]
    assert [path.read_bytes() for path in claims(tmp_path)] == [b"even" * 2000]


def test_without_rules_a_row_over_a_variant_is_refused_by_name(tmp_path: Path) -> None:
    log = log_of(image(1, b"x" * (variant.MAX_VALUE_BYTES + 1)))
    with pytest.raises(DecodeError) as refused:
        read(log, None)
    assert refused.value.code == "row_too_large"
    assert len(read(log, tmp_path)) == 1


def test_a_store_that_cannot_take_a_claim_stops_the_row(tmp_path: Path) -> None:
    log = log_of(image(1, b"x" * 50_000))
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    try:
        resource.setrlimit(resource.RLIMIT_FSIZE, (10_000, hard))
        with pytest.raises(SegmentStoreFullError, match=r"50000 bytes were to be written there, \d+ are free"):
            read(log, tmp_path)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        signal.signal(signal.SIGXFSZ, handler)
    assert claims(tmp_path) == []
    assert claimed(read(log, tmp_path)[0]["after"]["b"]) == b"x" * 50_000
