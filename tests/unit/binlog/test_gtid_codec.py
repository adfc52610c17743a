"""GTID sets on the wire and along the log."""

from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from databus.binlog.log.transactions.executed_gtids import ExecutedGtids, mysql_gtid_set
from databus.binlog.log.transactions.gtid_codec import decode_gtid_set, encode_gtid_set
from databus.core.errors import DecodeError
from databus.core.positions.gtid import MysqlGtidSet

A, B = "65046f36-e55e-11f1-844e-02fc00000001", "f7ceba1a-e55e-11f1-96ca-02fc00000001"


@given(st.lists(st.tuples(st.sampled_from([A, B, f"{B}:blue", f"{B}:_9"]), st.integers(1, 60)), max_size=40))
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
    mysql.add(pa.array([f"{A}:blue:1", f"{A}:7", f"{A}:blue:3"]))
    assert mysql.text() == f"{A}:1-8:blue:1:3,{B}:1"
    mariadb = ExecutedGtids("mariadb", "0-1-5,1-9-9")
    mariadb.add(pa.array(["0-2-6", "0-1-7", "3-1-1"]))
    assert mariadb.text() == "0-1-7,1-9-9,3-1-1"


C = "896e7882-18fe-11ef-ab88-22222d34d411"


def _interval(first: int, after: int) -> str:
    return f"{first:02x}{'00' * 7}{after:02x}{'00' * 7}"


_ONE = "01" + "00" * 7
_C = C.replace("-", "")
# By the format's description; MySQL 8.4 writes the same (go-mysql pull request 952 shows its PREVIOUS_GTIDS events).
TAGGED = {
    "": "0100000000000001",
    f"{C}:1-3": "0101000000000001" + _C + "00" + _ONE + _interval(1, 4),
    f"{C}:1-4:6:aaaa:1:b_2:1-3:5": (
        "0103000000000001"
        + (_C + "00" + "02" + "00" * 7 + _interval(1, 5) + _interval(6, 7))
        + (_C + "08" + b"aaaa".hex() + _ONE + _interval(1, 2))
        + (_C + "06" + b"b_2".hex() + "02" + "00" * 7 + _interval(1, 4) + _interval(5, 6))
    ),
    f"{A}:{'t' * 32}:7,{C}:2": (
        "0102000000000001"
        + (A.replace("-", "") + "40" + b"t".hex() * 32 + _ONE + _interval(7, 8))
        + (_C + "00" + _ONE + _interval(2, 3))
    ),
}


@pytest.mark.parametrize("text", TAGGED)
def test_sets_in_the_format_with_tags(text: str) -> None:
    wire = bytes.fromhex(TAGGED[text])
    found = decode_gtid_set(wire)
    assert str(found) == text
    assert found == MysqlGtidSet.parse(text)
    if found.intervals.keys() - {C}:  # without tags the older format is written, which all servers read
        assert encode_gtid_set(found) == wire
    else:
        assert encode_gtid_set(found)[7] == 0
    assert decode_gtid_set(encode_gtid_set(found)) == found


def test_more_sources_than_a_byte_counts() -> None:
    many = MysqlGtidSet.parse(",".join(f"{A}:t{i}:{i}-{2 * i}" for i in range(1, 700)))
    assert decode_gtid_set(encode_gtid_set(many)) == many


@pytest.mark.parametrize("text", [*(t for t in TAGGED if t), f"{A}:1-3"])
def test_what_is_cut_short_or_longer_is_refused(text: str) -> None:
    wire = bytes.fromhex(TAGGED[text]) if text in TAGGED else encode_gtid_set(MysqlGtidSet.parse(text))
    for size in range(len(wire)):
        with pytest.raises(DecodeError):
            decode_gtid_set(wire[:size])
    assert decode_gtid_set(wire + b"\x01CRC") == decode_gtid_set(wire)
    for more in (1, 3, 5):
        with pytest.raises(DecodeError, match="ends after"):
            decode_gtid_set(wire + bytes(more))


@given(st.binary(max_size=80), st.integers(0, 2))
def test_any_bytes_are_read_or_refused(noise: bytes, form: int) -> None:
    head = bytes([form, 1, 0, 0, 0, 0, 0, form])
    for data in (noise, head + noise):
        try:
            found = decode_gtid_set(data)
        except DecodeError:
            continue
        assert sum(map(len, found.intervals.values())) <= len(data) // 16


@pytest.mark.parametrize(("first", "last"), [(2, 2), (1, 2), (0, 1)])
def test_an_unknown_format_is_refused(first: int, last: int) -> None:
    with pytest.raises(DecodeError, match=f"format {last}"):
        decode_gtid_set(bytes([first, 0, 0, 0, 0, 0, 0, last]))
