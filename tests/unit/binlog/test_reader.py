"""The library's reader: pieces of any size give the rows that decoding the whole file at once gives."""

from __future__ import annotations

import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import pytest

from databus.binlog import read_file, reader
from databus.binlog.decoding.decode import decode_events
from databus.binlog.decoding.table_batch import TableBatch
from databus.binlog.segments.segment import segment_name
from databus.core.errors import ConfigError, DecodeError, SourceError
from tests.unit.binlog.log_encoder import Log, int_col, text_col
from tests.unit.binlog.value_encoder import integer, prefixed

NAME = "mysql-bin.000001"
MAGIC = b"\xfebin"
A, B = [int_col(), text_col("v")], [int_col("k")]
PIECES = (300, 1000, 16 << 20)


def image(number: int, text: str | None = "x") -> list[bytes | None]:
    return [integer(number, 4), None if text is None else prefixed(text.encode(), 1)]


def shop_log() -> Log:
    """Short and long transactions over two tables, and statements between them."""
    log = Log()
    log.gtid().query("CREATE TABLE a (id INT)")
    number = 0
    for events in (1, 3, 60, 2):
        log.gtid().begin()
        for step in range(events):
            log.table_map(1, "a", A).table_map(2, "b", B)
            log.rows(30, 1, 2, [image(number), image(number + 1, None)])
            log.rows(30, 2, 1, [[integer(number, 4)]])
            log.rows(31, 1, 2, [image(number), image(number, f"y{step}")])
            number += 2
        log.xid()
    log.gtid().query("TRUNCATE TABLE a")
    return log.transaction(1, "a", A, [image(999)])


def write(folder: Path, log: Log, data: bytes | None = None) -> Path:
    path = folder / NAME
    path.write_bytes(MAGIC + bytes(log.data if data is None else data))
    return path


def by_place(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return sorted(rows, key=lambda row: (row["position"], row["ordinal"]))


def rows_of(path: Path, **options: Any) -> list[dict[str, Any]]:
    with read_file(path, **options) as log:
        return [{"table": log.table_of(batch), **row} for batch in log for row in batch.to_pylist()]


def whole(log: Log) -> list[tuple[int, int, str, str, Any, Any]]:
    """The same rows by the decoder of whole buffers: position, ordinal, op, table, before, after."""
    decoded = decode_events(bytes(log.data), file=NAME)
    found: list[tuple[int, int, str, str, Any, Any]] = []
    for item in decoded:
        if isinstance(item, TableBatch):
            images = item.images.to_pylist()
            for i in range(len(item)):
                before, after = int(item.before_row[i]), int(item.after_row[i])
                found.append((
                    int(decoded.transactions.end_pos[item.transaction[i]]), int(item.ordinal[i]), "cud"[item.op[i]],
                    item.schema.full_name, images[before] if before >= 0 else None,
                    images[after] if after >= 0 else None,
                ))  # fmt: skip
        else:
            end = int(decoded.transactions.end_pos[item.transaction])
            found.append((end, item.ordinal, item.op, f"{item.database}.{item.table}", None, None))
    return sorted(found, key=lambda row: row[:2])


@pytest.mark.parametrize("piece_bytes", PIECES)
def test_rows_do_not_depend_on_the_size_of_the_pieces(tmp_path: Path, piece_bytes: int) -> None:
    log = shop_log()
    rows = by_place(rows_of(write(tmp_path, log), piece_bytes=piece_bytes))
    found = [(r["position"], r["ordinal"], r["op"], r["table"], r["before"], r["after"]) for r in rows]
    assert found == whole(log)
    assert len(found) == 3 + 66 * 4


@pytest.mark.parametrize("piece_bytes", PIECES)
def test_counts_do_not_depend_on_the_size_of_the_pieces(tmp_path: Path, piece_bytes: int) -> None:
    log = shop_log()
    with read_file(write(tmp_path, log), piece_bytes=piece_bytes) as read:
        rows = sum(batch.num_rows for batch in read)
        assert (read.rows, rows) == (1 + 66 * 4, 3 + 66 * 4)
        assert (read.file, read.position, read.transactions) == (NAME, log.position, 7)
        assert read.bytes_read == 4 + len(log.data)
        assert read.event_counts["FORMAT_DESCRIPTION (15)"] == 1
        assert (read.event_counts["WRITE_ROWS (30)"], read.event_counts["XID (16)"]) == (66 * 2 + 1, 5)
        assert sum(read.event_counts.values()) == len(log.types)


@pytest.mark.parametrize("piece_bytes", PIECES)
def test_no_table_passes_a_statement(tmp_path: Path, piece_bytes: int) -> None:
    rows = rows_of(write(tmp_path, shop_log()), piece_bytes=piece_bytes)
    (truncate,) = (i for i, row in enumerate(rows) if row["op"] == "t")
    assert rows[0]["statement"] == "CREATE TABLE a (id INT)"
    assert {row["position"] < rows[truncate]["position"] for row in rows[:truncate]} == {True}
    assert [row["after"]["id"] for row in rows[truncate + 1 :]] == [999]


def test_a_batch_says_where_its_rows_stand(tmp_path: Path) -> None:
    log = Log()
    log.gtid(5, commit_us=1_700_000_001_500_000).begin().table_map(1, "a", A)
    log.rows(31, 1, 2, [image(1, "old"), image(1, "new")]).rows(32, 1, 2, [image(1, None)]).xid()
    with read_file(write(tmp_path, log)) as read:
        (batch,) = read
    assert read.table_of(batch) == "shop.a"
    update, delete = batch.to_pylist()
    assert (update["op"], update["before"], update["after"]) == ("u", {"id": 1, "v": "old"}, {"id": 1, "v": "new"})
    assert (delete["op"], delete["before"], delete["after"]) == ("d", {"id": 1, "v": None}, None)
    assert [update["ordinal"], delete["ordinal"]] == [0, 1]
    assert (update["ts_ms"], update["server_id"], update["gtid"][-2:]) == (1_700_000_001_500, 7, ":5")
    assert (update["file"], update["position"], update["before_absent"]) == (NAME, log.position, None)


def test_absent_columns_are_named(tmp_path: Path) -> None:
    log = Log()
    log.gtid().begin().table_map(1, "a", A)
    log.rows(31, 1, 2, [[integer(1, 4)], [prefixed(b"z", 1)]], [True, False], [False, True]).xid()
    (row,) = rows_of(write(tmp_path, log))
    assert (row["before"], row["before_absent"]) == ({"id": 1, "v": None}, ["v"])
    assert (row["after"], row["after_absent"]) == ({"id": None, "v": "z"}, ["id"])


def test_tables_filter_rows_and_not_ordinals(tmp_path: Path) -> None:
    path = write(tmp_path, shop_log())
    everything = rows_of(path)
    wanted = by_place([row for row in everything if row["table"] == "shop.b"])
    for piece_bytes in PIECES:
        assert by_place(rows_of(path, tables=["shop.b"], piece_bytes=piece_bytes)) == wanted
    with pytest.raises(ConfigError, match="names no database"):
        read_file(path, tables=["b"])


def test_a_segment_needs_no_magic_and_keeps_its_positions(tmp_path: Path) -> None:
    log = shop_log()
    whole_rows = rows_of(write(tmp_path, log))
    raw = tmp_path / "raw.000001"
    raw.write_bytes(bytes(log.data))
    assert [{**row, "file": NAME} for row in rows_of(raw)] == whole_rows
    cut = next(i for i, kind in enumerate(log.types) if kind == 16) + 1
    description, begin = bytes(log.data[: log.ends[0]]), log.ends[cut - 1]
    for name in (segment_name(NAME, 4 + begin), "copied.000009"):
        path = tmp_path / name
        path.write_bytes(description + bytes(log.data[begin:]))
        positions = [row["position"] for row in rows_of(path)]
        assert positions == [row["position"] for row in whole_rows if row["position"] > 4 + begin]


@pytest.mark.parametrize("piece_bytes", PIECES)
def test_damage_stops_after_the_transactions_before_it(tmp_path: Path, piece_bytes: int) -> None:
    log = shop_log()
    last_xid = max(i for i, kind in enumerate(log.types) if kind == 16)
    data = bytearray(log.data)
    data[log.ends[last_xid - 1] - 6] ^= 0xFF
    begin = 4 + log.ends[last_xid - 2]
    rows: list[Any] = []
    path = write(tmp_path, log, bytes(data))
    error = pytest.raises(DecodeError, match=rf"{NAME}:{begin}: event WRITE_ROWS .* CRC32")
    with read_file(path, piece_bytes=piece_bytes) as read, error:
        for batch in read:
            rows += batch.to_pylist()
    complete = [row[:2] for row in whole(log) if row[0] < begin]
    assert [(row["position"], row["ordinal"]) for row in by_place(rows)] == complete
    assert sum(read.event_counts.values()) == last_xid - 1


@pytest.mark.parametrize("piece_bytes", PIECES)
def test_a_cut_file_names_the_place(tmp_path: Path, piece_bytes: int) -> None:
    log = shop_log()
    for cut in (log.ends[-1] - 3, log.ends[-2], log.ends[120] + 5, log.ends[120]):
        begin = 4 + max([0, *(end for end in log.ends if end <= cut)])
        what = "inside an event" if 4 + cut != begin else "inside a transaction"
        path = write(tmp_path, log, bytes(log.data[:cut]))
        error = pytest.raises(DecodeError, match=rf"{NAME}:{begin}: the log ends {what}")
        with read_file(path, piece_bytes=piece_bytes) as read, error:
            list(read)


def test_other_files_are_refused(tmp_path: Path) -> None:
    for content in (b"", b"\xfe", b"hello, world: no log at all, but long enough", MAGIC):
        path = tmp_path / "x.000001"
        path.write_bytes(content)
        with pytest.raises(DecodeError, match=r"x\.000001:0: this is no log file"):
            read_file(path)
    with pytest.raises(SourceError, match="cannot be read: No such file"):
        read_file(tmp_path / "none")


@pytest.mark.parametrize("checksum", [True, False])
def test_a_description_longer_than_its_file_is_refused(tmp_path: Path, checksum: bool) -> None:
    log = Log(checksum=checksum).transaction(1, "a", [int_col()], [[integer(1, 4)]])
    for data, size in ((bytes(log.data), len(log.data) + 1), (bytes(log.data[:90]), log.ends[0])):
        damaged = data[:9] + size.to_bytes(4, "little") + data[13:]
        damaged = damaged[:-5] + b"\0" + damaged[-4:]  # what is read as its checksum algorithm: none
        for name in (NAME, segment_name(NAME, 4 + log.ends[0])):
            path = tmp_path / name
            path.write_bytes((MAGIC if name == NAME else b"") + damaged)
            with pytest.raises(DecodeError, match=rf"{NAME}:4: event FORMAT_DESCRIPTION .* {size} bytes, of which"):
                read_file(path)


def test_a_description_that_takes_events_in_is_refused(tmp_path: Path) -> None:
    log = Log(checksum=False).transaction(1, "a", [int_col()], [[integer(1, 4)]])
    data = log.data[:9] + log.ends[1].to_bytes(4, "little") + log.data[13 : log.ends[1] - 5] + b"\0" * 5
    path = write(tmp_path, log, bytes(data + log.data[log.ends[1] :]))
    with pytest.raises(DecodeError, match=rf"{NAME}:4: event FORMAT_DESCRIPTION .* does not lie where"):
        read_file(path)


def test_a_relay_log_is_named(tmp_path: Path) -> None:
    log = Log(format_flags=0x40).add(4, bytes(8) + b"mysql-bin.000002", flags=0x20, log_pos=0)
    path = write(tmp_path, log)
    with pytest.raises(DecodeError, match="is a relay log") as caught:
        read_file(path)
    assert "log_replica_updates" in caught.value.hint


def test_an_encrypted_file_is_named_and_a_decrypted_copy_is_read(tmp_path: Path) -> None:
    log = Log(version="10.11.19-MariaDB").add(164, bytes(17))
    log.mariadb_gtid(1).table_map(1, "a", [int_col()]).rows(30, 1, 1, [[integer(1, 4)]]).xid()
    data = bytes(log.data)
    path = write(tmp_path, log)
    assert [row["after"]["id"] for row in rows_of(path)] == [1]
    encrypted = data[: log.ends[1]] + bytes(byte ^ 0x5A for byte in data[log.ends[1] :])
    with pytest.raises(DecodeError, match=rf"{NAME}:{4 + log.ends[1]}: the events from here on are encrypted"):
        read_file(write(tmp_path, log, encrypted))
    path.write_bytes(b"\xfdbin" + bytes(600))  # MySQL's binlog_encryption
    with pytest.raises(DecodeError, match=rf"{NAME}:0: .* encrypted") as caught:
        read_file(path)
    assert "dump" in str(caught.value.hint)


def test_the_example_of_the_documentation_runs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = write(tmp_path, shop_log())
    example = (reader.__doc__ or "").split("\n\n")[1:3]
    code = textwrap.dedent("\n\n".join(example)).replace("/var/lib/mysql/mysql-bin.000003", str(path))
    exec(compile(code, "example", "exec"), {})
    assert "shop.a" in capsys.readouterr().out


def test_the_library_loads_no_framework(tmp_path: Path) -> None:
    path = write(tmp_path, shop_log())
    code = (
        "import sys, databus.binlog\n"
        "assert not {'pyarrow', 'numba'} & set(sys.modules)\n"
        f"assert sum(b.num_rows for b in databus.binlog.read_file({str(path)!r})) == 267\n"
        "found = sorted({'pyspark', 'airflow', 'kazoo', 'confluent_kafka', 'sqlalchemy', 'typer'} & set(sys.modules))\n"
        "assert not found, found\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
