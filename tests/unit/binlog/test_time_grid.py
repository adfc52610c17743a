"""TIME over its whole domain, ±838:59:59.999999, in every precision: a grid of more than 100,000 values."""

from __future__ import annotations

import pyarrow as pa
import pytest

from databus.binlog.decoding.decode import decode_events
from databus.binlog.decoding.table_batch import TableBatch
from databus.rows.temporal import iso_text
from tests.unit.binlog.log_encoder import Col, Log, int_col
from tests.unit.binlog.value_encoder import integer, time2

LARGEST_S = 838 * 3600 + 59 * 60 + 59
FRACTIONS_US = (0, 1, 256, 65_535, 65_536, 500_000, 999_999)


def values(digits: int) -> list[int]:
    """Return microseconds: every boundary of hour, minute and second, with fractions of the column's precision."""
    unit = 10 ** (6 - digits)
    seconds = {
        s for h in (0, 1, 7, 8, 15, 16, 127, 128, 255, 511, 512, 838) for m in range(60) for s in (h * 3600 + m * 60,)
    }
    seconds |= {s + d for s in seconds for d in (1, 31, 32, 59)} | {LARGEST_S}
    fractions = {f // unit * unit for f in FRACTIONS_US}
    found = {s * 1_000_000 + f for s in seconds if s <= LARGEST_S for f in fractions}
    return sorted(found | {-v for v in found})


def text(us: int, digits: int) -> str:
    seconds, fraction = divmod(abs(us), 1_000_000)
    clock = f"{seconds // 3600:02d}:{seconds // 60 % 60:02d}:{seconds % 60:02d}"
    return ("-" if us < 0 else "") + clock + (f".{fraction:06d}"[: digits + 1] if digits else "")


@pytest.mark.parametrize("digits", range(7))
def test_every_value_of_the_grid(digits: int) -> None:
    wanted = values(digits)
    log = Log(checksum=False)
    log.gtid().begin().table_map(1, "t", [int_col(), Col("v", 19, bytes([digits]))])
    for start in range(0, len(wanted), 1000):
        part = enumerate(wanted[start : start + 1000])
        log.rows(30, 1, 2, [[integer(n, 4), time2(us, digits)] for n, us in part])
    log.xid()
    batches = [b for b in decode_events(bytes(log.data), file="f.000001") if isinstance(b, TableBatch)]
    found = [v for b in batches for v in b.images.column("v").cast(pa.int64()).to_pylist()]
    assert found == wanted
    texts = [t for b in batches for t in iso_text(b.images.column("v"), b.schema.columns[1]).to_pylist()]
    assert texts == [text(us, digits) for us in wanted]


def test_the_grid_is_large() -> None:
    assert sum(len(values(digits)) for digits in range(7)) > 100_000
