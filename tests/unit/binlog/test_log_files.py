"""Several log files as one log: XA transactions across them, and definitions that the log itself does not give."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from pathlib import Path

import pytest

from databus.binlog import read_file, read_files
from databus.binlog.schema_history.given import definitions_of
from databus.binlog.segments.segment import segment_name
from databus.core.errors import ConfigError, DecodeError, SchemaUnknownError
from databus.ops.decode.files import NoOutput, decode_files
from tests.unit.binlog.log_encoder import Log, int_col, text_col
from tests.unit.binlog.test_reader_edges import ID, SIZES, spelled, whole, xa
from tests.unit.binlog.test_taken_back import ONE, TWO, four, prepare
from tests.unit.binlog.value_encoder import integer, prefixed

BASE = "mysql-bin.00000"


def files(folder: Path, *logs: tuple[str, Log]) -> list[Path]:
    paths = []
    for name, log in logs:
        (folder / name).write_bytes(b"\xfebin" + bytes(log.data))
        paths.append(folder / name)
    return paths


def ids(paths: Sequence[Path], **options: object) -> list[int]:
    with read_files(paths, **options) as log:  # type: ignore[arg-type]
        return [row["after"]["id"] for batch in log for row in batch.to_pylist()]


@pytest.mark.parametrize("size", [64, 1 << 20])
def test_segments_cut_anywhere_are_the_log(tmp_path: Path, size: int) -> None:
    log = xa()
    expected = whole(bytes(log.data))
    ends = [log.ends[0]]
    with read_files(files(tmp_path, (f"{BASE}1", log))) as read:
        for _, transactions in read.changes():
            ends += [int(end) - 4 for end in transactions.end_pos]
    ends = sorted({*ends, len(log.data)})
    for cut in ends[1:-1]:
        paths = []
        for begin, end in itertools.pairwise((ends[0], cut, len(log.data))):
            path = tmp_path / segment_name(f"{BASE}1", 4 + begin)
            path.write_bytes(bytes(log.data[: log.ends[0]] + log.data[begin:end]))
            paths.append(path)
        with read_files(paths, piece_bytes=size) as read:
            assert spelled(list(read.changes())) == expected, cut
            assert read.prepared == (TWO,)
            assert read.bytes_read == len(log.data) + log.ends[0]


def prepared_and_committed() -> tuple[Log, Log, Log]:
    first = prepare(Log().transaction(1, "t", ID, four(1)), ONE, 2, 3)
    second = Log().transaction(1, "t", ID, four(4))
    third = Log().gtid().query(f"XA COMMIT {ONE}").transaction(1, "t", ID, four(5))
    return first, second, third


@pytest.mark.parametrize("size", SIZES)
def test_an_xa_transaction_spans_files(tmp_path: Path, size: int) -> None:
    paths = files(tmp_path, *((f"{BASE}{n}", log) for n, log in enumerate(prepared_and_committed(), 1)))
    with read_files(paths, piece_bytes=size) as log:
        rows = [row for batch in log for row in batch.to_pylist()]
        assert log.prepared == ()
        assert (log.file, log.transactions) == (f"{BASE}3", 5)
    assert [row["after"]["id"] for row in rows] == [1, 4, 2, 3, 5]
    assert [row["file"][-1] for row in rows] == list("12333")
    assert rows[2]["position"] == rows[3]["position"] < rows[4]["position"]
    decoded = decode_files(paths, (), NoOutput())
    assert [(file.rows, file.prepared) for file in decoded.files] == [(1, (ONE,)), (1, (ONE,)), (3, ())]


@pytest.mark.parametrize("names", [(1, 3), (2, 3), (3, 2)])
def test_files_that_do_not_follow_each_other_join_nothing(tmp_path: Path, names: tuple[int, int]) -> None:
    first, _, third = prepared_and_committed()
    paths = files(tmp_path, (f"{BASE}{names[0]}", first), (f"{BASE}{names[1]}", third))
    if names == (2, 3):
        assert ids(paths) == [1, 2, 3, 5]
        paths.append(paths[0])
    with pytest.raises(DecodeError, match=r"XA COMMIT .* lies before what is read"):
        ids(paths[1:])
    if names != (2, 3):
        with pytest.raises(DecodeError, match=f"{BASE}{names[1]}:.*XA COMMIT .* lies before what is read"):
            ids(paths)
        assert ids(paths, prepared="elsewhere") == [1, 5]


COLUMNS = [int_col(unsigned=True), text_col("v")]
GIVEN = {"shop.t": "CREATE TABLE `t` (`id` int unsigned NOT NULL, `v` varchar(25), PRIMARY KEY (`id`)) CHARSET=utf8mb4"}


def bare(log: Log, *numbers: int, added: bool = False) -> Log:
    """A transaction whose TABLE_MAP has no names."""
    columns = [*COLUMNS, int_col("n")] if added else COLUMNS
    rows = [[integer(n, 4), prefixed(b"v%d" % n, 1), *([integer(7, 4)] * added)] for n in numbers]
    log.gtid().begin().table_map(1, "t", columns, full=False)
    return log.rows(30, 1, len(columns), rows).xid()


def altered() -> tuple[Log, Log]:
    first = bare(bare(Log(), 1, 2).gtid().query("ALTER TABLE t ADD n INT NOT NULL"), 3, added=True)
    second = bare(Log(), 4, added=True).gtid().query("ALTER TABLE t DROP n, RENAME COLUMN v TO w")
    return first, bare(second, 5)


@pytest.mark.parametrize("size", SIZES)
def test_given_definitions_are_followed_through_files(tmp_path: Path, size: int) -> None:
    paths = files(tmp_path, *((f"{BASE}{n}", log) for n, log in enumerate(altered(), 1)))
    with read_files(paths, piece_bytes=size, tables=["shop.t"], definitions=GIVEN) as log:
        rows = [row["after"] for batch in log for row in batch.to_pylist() if row["op"] == "c"]
    assert rows == [
        {"id": 1, "v": "v1"}, {"id": 2, "v": "v2"}, {"id": 3, "v": "v3", "n": 7}, {"id": 4, "v": "v4", "n": 7},
        {"id": 5, "w": "v5"},
    ]  # fmt: skip


def test_rows_without_a_definition_that_fits_are_refused_by_name(tmp_path: Path) -> None:
    first, second = altered()
    paths = files(tmp_path, (f"{BASE}1", first), (f"{BASE}2", second), (f"{BASE}4", bare(Log(), 6)))
    other = {"shop.other": "CREATE TABLE other (id INT)"}
    for options in ({}, {"definitions": other}):
        with (
            pytest.raises(DecodeError, match=r"shop\.t is logged without column names"),
            read_file(
                paths[0],
                **options,  # type: ignore[arg-type]
            ) as log,
        ):
            list(log)
    assert ids([paths[0]], tables=["shop.else"], definitions={"shop.t": "CREATE TABLE t (id DATE)"}) == []
    wrong = {"shop.t": "CREATE TABLE t (id BIGINT PRIMARY KEY, v VARCHAR(25)) CHARSET=utf8mb4"}
    with pytest.raises(SchemaUnknownError, match=rf"{BASE}1:\d+: rows of shop\.t .*column 1 \(id bigint\) is logged"):
        list(read_file(paths[0], definitions=wrong))
    # The second file begins behind the ALTER; and who knows what file 3 held?
    with pytest.raises(SchemaUnknownError, match="the log has 3 columns, the definition 2"):
        list(read_file(paths[1], definitions=GIVEN))
    with pytest.raises(SchemaUnknownError, match=rf"{BASE}4 does not go on where {BASE}2 ends") as caught:
        list(read_files(paths, definitions=GIVEN))
    assert "SHOW CREATE TABLE" in caught.value.hint


@pytest.mark.parametrize(
    "statement",
    ["", "DROP TABLE t", "CREATE TABLE u (id INT)", "CREATE TABLE t (id INT, v", "CREATE TABLE t AS SELECT 1"],
)
def test_what_is_no_definition_is_refused(tmp_path: Path, statement: str) -> None:
    (path,) = files(tmp_path, (f"{BASE}1", Log()))
    with pytest.raises(ConfigError, match=r"definition given for shop\.t cannot be used"):
        read_file(path, definitions={"shop.t": statement})


def test_definitions_of_a_dump() -> None:
    script = """-- MySQL dump; of `shop`
/*!40101 SET NAMES utf8mb4 */;
CREATE DATABASE /*!32312 IF NOT EXISTS*/ `shop`;
USE `shop`;
DROP TABLE IF EXISTS `a;b`;
CREATE TABLE `a;b` (`id` int NOT NULL COMMENT 'one; two', PRIMARY KEY (`id`)) ENGINE=InnoDB;
INSERT INTO t VALUES (';');
CREATE TABLE other.c (id INT)
"""
    found = definitions_of(script)
    assert list(found) == ["shop.a;b", "other.c"]
    assert found["shop.a;b"].startswith("CREATE TABLE `a;b`")
    assert found["shop.a;b"].endswith("ENGINE=InnoDB")
    with pytest.raises(ConfigError, match="table t is defined without its database"):
        definitions_of("CREATE TABLE t (id INT)")
