"""`databus decode`: what it prints for files whose content is known."""

from __future__ import annotations

import gc
import io
import json
import logging
import os
import shlex
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest

from databus.binlog import read_file
from databus.cli.main import main
from databus.cli.terminal.output import ERR
from databus.core.errors import DecodeError
from databus.ops.decode.files import ArrowStreams, DecodedFile, JsonLines, NoOutput, decode_files
from tests.unit.binlog.log_encoder import Log, int_col
from tests.unit.binlog.test_log_files import BASE, GIVEN, altered, files, prepared_and_committed
from tests.unit.binlog.test_reader import A, B, image, shop_log, write
from tests.unit.binlog.value_encoder import integer


def decoded_lines(*paths: Path, tables: tuple[str, ...] = ()) -> list[dict[str, Any]]:
    target = io.BytesIO()
    decode_files(paths, tables, JsonLines(target))
    return [json.loads(line) for line in target.getvalue().splitlines()]


def small_log() -> Log:
    log = Log()
    log.gtid().query("CREATE TABLE a (id INT)")
    log.gtid().begin().table_map(1, "a", A).rows(30, 1, 2, [image(1, "й"), image(2, None)])
    log.table_map(2, "b", B).rows(32, 2, 1, [[integer(7, 4)]]).xid()
    return log


def test_rows_as_lines_have_the_form_of_peek(tmp_path: Path) -> None:
    create, first, second, third = decoded_lines(write(tmp_path, small_log()))
    assert (create["op"], create["table"], create["statement"]) == ("m", "a", "CREATE TABLE a (id INT)")
    assert (first["op"], first["database"], first["key"]) == ("c", "shop", {"id": 1})
    assert (first["before"], first["after"]) == (None, {"id": 1, "v": "й"})
    assert (second["after"], second["ordinal"]) == ({"id": 2, "v": None}, 1)
    assert (third["op"], third["before"], third["after"], third["ordinal"]) == ("d", {"k": 7}, None, 2)
    assert "event_id" not in first


def test_files_follow_one_another_and_tables_can_be_chosen(tmp_path: Path) -> None:
    folders = [tmp_path / name for name in "xy"]
    for folder in folders:
        folder.mkdir()
    paths = [write(folder, small_log()) for folder in folders]
    assert [row["table"] for row in decoded_lines(*paths, tables=("shop.b",))] == ["b", "b"]


def test_the_summary_counts_what_was_read(tmp_path: Path) -> None:
    path = write(tmp_path, small_log())
    seen: list[int] = []
    decoded = decode_files([path], (), NoOutput(), lambda file: seen.append(file.rows))
    (file,) = decoded.to_json()["files"]
    assert file["tables"] == {"shop.a": {"c": 2, "m": 1}, "shop.b": {"d": 1}}
    assert (file["last_position"], file["transactions"]) == (path.stat().st_size, 2)
    assert (decoded.rows, decoded.bytes, seen) == (4, path.stat().st_size, [1, 3, 4])
    assert (file["events"]["WRITE_ROWS (30)"], file["server_version"]) == (1, "8.0.31")


def test_arrow_streams_hold_what_the_library_yields(tmp_path: Path) -> None:
    path = write(tmp_path, shop_log())
    target = io.BytesIO()
    decode_files([path], (), ArrowStreams(target))
    source, found = pa.BufferReader(target.getvalue()), []
    while source.tell() < source.size():
        with pa.ipc.open_stream(source) as stream:
            found += [(batch.schema.metadata, batch.to_pylist()) for batch in stream]
    with read_file(path) as log:
        assert found == [(batch.schema.metadata, batch.to_pylist()) for batch in log]


def test_damage_has_a_hint_for_a_file(tmp_path: Path) -> None:
    data = bytearray(shop_log().data)
    data[-6] ^= 1
    target = io.BytesIO()
    with pytest.raises(DecodeError, match=r"mysql-bin\.000001:\d+: .*CRC32") as caught:
        decode_files([write(tmp_path, shop_log(), bytes(data))], (), JsonLines(target))
    assert "mysqlbinlog" in caught.value.hint
    assert len(target.getvalue().splitlines()) == 3 + 66 * 4 - 1


def test_progress_knows_the_size(tmp_path: Path) -> None:
    path = write(tmp_path, shop_log())
    files: set[int] = set()

    def note(file: DecodedFile) -> None:
        files.add(file.size_bytes)
        assert file.bytes <= file.size_bytes

    decode_files([path], (), NoOutput(), note)
    assert files == {path.stat().st_size}


def command(*arguments: str, **options: Any) -> subprocess.CompletedProcess[str]:
    argv = [sys.executable, "-m", "databus.cli.main", "decode", *arguments]
    wide = {**os.environ, "COLUMNS": "200"}  # what is said is not broken into lines
    return subprocess.run(argv, capture_output=True, text=True, check=False, timeout=120, env=wide, **options)


@dataclass
class Here:
    """The same command in this process: a start takes more than a second of CPU."""

    capfd: pytest.CaptureFixture[str]

    def __call__(self, *arguments: str) -> SimpleNamespace:
        code: object = 0
        try:
            main(["decode", *arguments])
        except SystemExit as ended:
            code = ended.code
        said = self.capfd.readouterr()
        return SimpleNamespace(returncode=code, stdout=said.out, stderr=said.err)


@pytest.fixture
def here(capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Here:
    monkeypatch.setattr(sys, "argv", ["databus"])
    monkeypatch.setattr(ERR, "width", 200)
    monkeypatch.setattr(gc, "set_threshold", lambda *_: None)  # of a process of its own, as the log's form
    monkeypatch.setattr(logging, "basicConfig", lambda **_: None)
    return Here(capfd)


def test_the_command_prints_rows_and_the_summary_apart(tmp_path: Path) -> None:
    done = command(str(write(tmp_path, small_log())), "--summary", "json")
    assert (done.returncode, len(done.stdout.splitlines())) == (0, 4)
    assert json.loads(done.stderr)["rows"] == 4


def test_the_command_names_the_place_of_damage(tmp_path: Path, here: Here) -> None:
    log = small_log()
    done = here(str(write(tmp_path, log, bytes(log.data[:-3]))), "--output", "none")
    begin = 4 + log.ends[-2]
    assert done.returncode == 1
    assert f"mysql-bin.000001:{begin}: the log ends inside an event" in done.stderr
    assert "source_decode" in done.stderr


def test_the_command_is_quiet_when_its_reader_leaves(tmp_path: Path) -> None:
    log = Log()
    for start in range(0, 40_000, 2_000):
        log.transaction(1, "a", A, [image(n, "x" * 60) for n in range(start, start + 2_000)])
    path = write(tmp_path, log)
    argv = shlex.join([sys.executable, "-m", "databus.cli.main", "decode", str(path)])
    shell = ["bash", "-o", "pipefail", "-c", f"{argv} | head -1"]
    done = subprocess.run(shell, capture_output=True, text=True, check=False, timeout=120)
    assert (done.returncode, len(done.stdout.splitlines()), done.stderr) == (0, 1, "")


def test_the_command_leaves_prepared_rows_out_when_told(tmp_path: Path, here: Here) -> None:
    log = Log().gtid().query("XA COMMIT X'6f6e65',X'',1").transaction(1, "a", [int_col()], [[integer(1, 4)]])
    path = str(write(tmp_path, log))
    refused = here(path)
    assert (refused.returncode != 0, "XA PREPARE that lies before" in " ".join(refused.stderr.split())) == (True, True)
    told = here(path, "--prepared", "elsewhere")
    assert (told.returncode, len(told.stdout.splitlines())) == (0, 1)


def test_the_command_joins_xa_across_files_and_names_what_is_pending(tmp_path: Path, here: Here) -> None:
    paths = files(tmp_path, *((f"{BASE}{n}", log) for n, log in enumerate(prepared_and_committed(), 1)))
    whole = here(*map(str, paths))
    assert [json.loads(line)["after"]["id"] for line in whole.stdout.splitlines()] == [1, 4, 2, 3, 5]
    assert "not resolved" not in whole.stderr
    pending = here(*map(str, paths[:2]))
    assert (pending.returncode, len(pending.stdout.splitlines())) == (0, 2)
    assert "prepared and not resolved, rows held back: X'6f6e65',X'',1" in pending.stderr


def test_the_command_takes_definitions(tmp_path: Path, here: Here) -> None:
    paths = files(tmp_path, *((f"{BASE}{n}", log) for n, log in enumerate(altered(), 1)))
    script = tmp_path / "schema.sql"
    script.write_text(f"USE `shop`;\n{GIVEN['shop.t']};\n")
    told = here(*map(str, paths), "--definitions", str(script))
    rows = [json.loads(line) for line in told.stdout.splitlines()]
    assert [row["after"] for row in rows if row["op"] == "c"][-2:] == [
        {"id": 4, "v": "v4", "n": 7},
        {"id": 5, "w": "v5"},
    ]
    without = here(*map(str, paths))
    assert (without.returncode, "shop.t is logged without column names" in " ".join(without.stderr.split())) == (
        1,
        True,
    )
    missing = here(*map(str, paths), "--definitions", str(tmp_path / "nothing.sql"))
    assert missing.returncode == 2
