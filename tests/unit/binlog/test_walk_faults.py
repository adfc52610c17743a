"""What errors advise about a transaction that is logged by statement."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from databus.binlog.decoding.table_batch import Transactions
from databus.binlog.log.walk import RowsByStatement
from databus.binlog.log.walk_faults import rows_by_statement

ONE = np.array([0], np.int64)
LOG = Transactions("b.000001", ONE + 4, ONE + 900, pa.array([""], pa.string()), ONE, ONE)


@pytest.mark.parametrize("number", [0, 12])
def test_a_piece_of_a_backfill_is_told_of_two_ranges_and_of_no_skip(number: int) -> None:
    piece = f"shop.backfill-replay-0123456789ab-{number}"
    error = rows_by_statement(RowsByStatement("INSERT INTO t VALUES (1)", 100, 0), LOG, piece)
    assert "skip" not in error.hint
    assert "No backfill can pass it" not in error.hint
    assert "`--past-statements` passes such a transaction, but not one that lies in a plan in flight" in error.hint
    assert "databus backfill shop --from … --to … --mode replay" in error.hint
    assert "ends at b.000001:4 and one that begins at b.000001:900" in error.hint
    assert "backfill-replay" not in error.hint


def test_a_flow_is_told_of_the_place_behind_it() -> None:
    error = rows_by_statement(RowsByStatement("INSERT INTO t VALUES (1)", 100, 0), LOG, "shop")
    assert "`databus checkpoint skip shop b.000001:900 --reason" in error.hint
