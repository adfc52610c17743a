"""User variables, seeds and numbers before a statement: they pass with it, and with nothing else."""

from __future__ import annotations

import struct

import pytest

from databus.binlog.decoding.decode import decode_events
from databus.binlog.decoding.table_batch import TableBatch
from databus.core.errors import DecodeError
from tests.unit.binlog.log_encoder import Log, int_col

FILE = "mysql-bin.000001"
ID = [int_col()]
INTVAR = 5, b"\2" + struct.pack("<Q", 7)
RAND = 13, struct.pack("<QQ", 1, 2)
USER_VAR = 14, struct.pack("<I1sBBII8sB", 1, b"a", 0, 2, 63, 8, bytes(8), 0)
NULL_VAR = 14, struct.pack("<I1sB", 1, b"a", 1)
TEMPORARY = "CREATE TEMPORARY TABLE x AS SELECT @a"


def ids(log: Log) -> list[int]:
    found = decode_events(bytes(log.data), file=FILE)
    return [number for b in found if isinstance(b, TableBatch) for number in b.images.column("id").to_pylist()]


def row(log: Log, number: int) -> Log:
    return log.table_map(1, "t", ID).rows(30, 1, 1, [[struct.pack("<i", number)]])


@pytest.mark.parametrize("value", [INTVAR, RAND, USER_VAR, NULL_VAR])
def test_they_pass_before_a_temporary_table(value: tuple[int, bytes]) -> None:
    log = Log().gtid().add(*value).add(*INTVAR).query(TEMPORARY)
    row(log.gtid().begin().add(*value).query(TEMPORARY), 1).xid()
    assert ids(log) == [1]


@pytest.mark.parametrize(
    "value",
    [(5, INTVAR[1][:-1]), (5, b"\3" + bytes(8)), (13, bytes(15)), (14, bytes(4)), (14, USER_VAR[1][:-3]), (14, b"\1")],
)
def test_one_that_does_not_read_as_a_value_is_refused(value: tuple[int, bytes]) -> None:
    log = Log().gtid()
    at = log.position
    log.add(*value).query(TEMPORARY)
    with pytest.raises(DecodeError, match=rf"{FILE}:{at}: event .* \({value[0]}\)"):
        ids(log)


@pytest.mark.parametrize("follower", ["rows", "end", "begin", "commit", "savepoint", "gtid"])
@pytest.mark.parametrize("value", [INTVAR, RAND, USER_VAR])
def test_they_are_refused_where_no_statement_follows(value: tuple[int, bytes], follower: str) -> None:
    log = Log(checksum=False).gtid()
    if follower != "begin":
        log.begin()
    at = log.position
    log.add(*value)
    if follower == "rows":
        row(log, 1).xid()
    elif follower == "end":
        log.xid()
    elif follower == "gtid":
        log.gtid().query(TEMPORARY)
    else:
        log.query({"begin": "BEGIN", "commit": "COMMIT", "savepoint": "SAVEPOINT `a`"}[follower]).xid()
    with pytest.raises(DecodeError, match=rf"{FILE}:{at}: event .* \({value[0]}\)"):
        ids(log)


def test_they_are_refused_outside_of_any_transaction() -> None:
    log = Log()
    at = log.position
    log.add(*INTVAR).query(TEMPORARY)
    with pytest.raises(DecodeError, match=f"{FILE}:{at}: event INTVAR"):
        ids(log)
