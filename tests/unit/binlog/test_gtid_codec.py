"""GTID sets on the wire and along the log."""

from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from databus.binlog.executed_gtids import ExecutedGtids, mysql_gtid_set
from databus.binlog.gtid_codec import decode_gtid_set, encode_gtid_set
from databus.core.errors import DecodeError, OffsetInvalidError
from databus.core.gtid import MysqlGtidSet

A, B = "65046f36-e55e-11f1-844e-02fc00000001", "f7ceba1a-e55e-11f1-96ca-02fc00000001"


@given(st.lists(st.tuples(st.sampled_from([A, B]), st.integers(1, 60)), max_size=40))
def test_collected_gtids_are_the_set_and_survive_the_wire(passed: list[tuple[str, int]]) -> None:
    expected = MysqlGtidSet()
    for source, number in passed:
        expected = expected.add(source, number)
    collected = mysql_gtid_set(f"{source}:{number}" for source, number in passed)
    assert collected == expected
    assert decode_gtid_set(encode_gtid_set(collected)) == collected


def test_gtids_are_added_to_where_they_began() -> None:
    mysql = ExecutedGtids("mysql", f"{A}:1-5")
    mysql.add(pa.array([f"{A}:6", "", f"{B}:1", f"{A}:8"]))
    assert mysql.text() == f"{A}:1-6:8,{B}:1"
    mariadb = ExecutedGtids("mariadb", "0-1-5,1-9-9")
    mariadb.add(pa.array(["0-2-6", "0-1-7", "3-1-1"]))
    assert mariadb.text() == "0-1-7,1-9-9,3-1-1"


def test_what_cannot_be_coded_is_refused() -> None:
    with pytest.raises(OffsetInvalidError, match="tag"):
        encode_gtid_set(MysqlGtidSet.parse(f"{A}:blue:1-3"))
    with pytest.raises(DecodeError):
        decode_gtid_set(encode_gtid_set(MysqlGtidSet.parse(f"{A}:1-3"))[:-3])
