"""A MariaDB that encrypts its binary log: a dump comes in the clear, the files do not."""

from __future__ import annotations

import secrets
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from databus.binlog import read_file, read_server
from databus.core.errors import DecodeError
from databus.core.findings import Level
from databus.core.positions.offsets import BinlogOffset
from databus.sandbox import Sandbox, SandboxOptions
from tests.contract.source_contract import EVERYTHING, rows_of
from tests.integration.binlog_shop import Shop, fields
from tests.ports import ports_from

pytestmark = pytest.mark.integration


@pytest.fixture(scope="module")
def encrypted(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sandbox]:
    folder = Path(tempfile.mkdtemp(prefix="databus-keys-"))  # pytest's own folders are closed to the server's user
    folder.chmod(0o755)
    keys = folder / "keys"
    keys.write_text(f"1;{secrets.token_hex(32)}\n")
    options = {
        "plugin-load-add": "file_key_management",
        "file-key-management-filename": str(keys),
        "encrypt-binlog": "ON",
    }
    sandbox = Sandbox(
        tmp_path_factory.mktemp("encrypted"),
        ports_from=ports_from(29_600),
        options=SandboxOptions(sql_options={"mariadb": options}),
    )
    try:
        sandbox.up(("mariadb",))
        yield sandbox
    finally:
        sandbox.destroy()
        shutil.rmtree(folder)


def test_a_dump_of_an_encrypted_log_is_read_from_anywhere(encrypted: Sandbox, tmp_path: Path) -> None:
    shop = Shop("mariadb", encrypted.address("mariadb"), tmp_path, "numba")
    t = f"{shop.name}.t"
    shop.sql(f"CREATE TABLE {t} (id INT PRIMARY KEY, v VARCHAR(20))", f"INSERT INTO {t} VALUES (1, 'one')")
    middle = shop.open().latest_offset()
    shop.sql(f"INSERT INTO {t} VALUES (2, 'two')", "FLUSH BINARY LOGS", f"INSERT INTO {t} VALUES (3, 'three')")
    begin = BinlogOffset(shop.begin.file, 4, "", shop.begin.flavor, shop.begin.server)
    for start, ids in ((begin, [1, 2, 3]), (middle, [2, 3])):
        source = shop.open()
        assert all(f.level is not Level.ERROR for f in source.preflight(start))
        found, after = [], start
        while (plan := source.plan(after, EVERYTHING)) is not None:
            found += [row for row in rows_of(source, plan) if row["op"] == "c"]
            source.release(plan)
            assert isinstance(plan.range.end, BinlogOffset)
            after = plan.range.end
        source.close()
        assert [(fields(row["after"]) or {})["id"] for row in found] == ids
    host, port = str(shop.connection.host), int(shop.connection.port or 0)
    with read_server(host, user="root", port=port, start=f"{begin.file}:{begin.pos}", tables=[t]) as log:
        ids = [row["after"]["id"] for batch in log for row in batch.to_pylist() if row["op"] == "c"]
    assert ids == [1, 2, 3]
    # The file itself is refused by name.
    base = shop.sql("SELECT @@log_bin_basename")[0][0]
    assert b"three" not in Path(f"{base}.000002").read_bytes()
    for path in (Path(f"{base}.000001"), Path(f"{base}.000002")):
        with pytest.raises(DecodeError, match=rf"{path.name}:\d+: .* encrypted") as caught:
            read_file(path)
        assert "dump" in str(caught.value.hint)
    shop.drop()
