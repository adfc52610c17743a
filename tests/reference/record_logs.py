"""Record the logs of tests/fixtures/message_log from real servers: `python -m tests.reference.record_logs`, seldom."""

from __future__ import annotations

import shutil
import sys
import tempfile
from pathlib import Path
from typing import Any

import pymysql

from databus.binlog import read_file
from databus.sandbox import Sandbox
from databus.sandbox.accounts import ROOT
from tests.reference.message_types import CHANGES, INVALID, MARIADB, MYSQL, TypeForm, table_of

FOLDER = Path(__file__).parents[1] / "fixtures" / "message_log"


def main() -> None:
    for server, types in (("mysql", MYSQL), ("mariadb", MARIADB)):
        with tempfile.TemporaryDirectory(prefix="databus-recorded-") as home:
            sandbox = Sandbox(Path(home), ports_from=20_000)
            try:
                sandbox.up((server,))
                record(sandbox, server, types)
            finally:
                sandbox.down()


def record(sandbox: Sandbox, server: str, types: tuple[TypeForm, ...]) -> None:
    """Write the log of our statements alone."""
    host, port = sandbox.address(server).split(":")
    connection: Any = pymysql.connect(
        host=host, port=int(port), user=ROOT.user, password="", autocommit=True, init_command="SET time_zone='+00:00'"
    )
    with connection, connection.cursor() as cursor:
        cursor.execute("DROP DATABASE IF EXISTS shop")
        cursor.execute("CREATE DATABASE shop")
        cursor.execute("FLUSH BINARY LOGS")
        cursor.execute("SHOW MASTER STATUS")
        name = cursor.fetchone()[0]
        for statement in (*CHANGES, *INVALID, *table_of(types)):
            cursor.execute(statement)
        cursor.execute("FLUSH BINARY LOGS")
        cursor.execute("SELECT @@global.log_bin_basename")
        path = Path(cursor.fetchone()[0]).with_name(name)
        kept = FOLDER / server / name
        shutil.rmtree(kept.parent, ignore_errors=True)
        kept.parent.mkdir(parents=True)
        kept.write_bytes(path.read_bytes())
    sys.stdout.write(f"{kept}: {kept.stat().st_size} bytes, {sum(batch.num_rows for batch in read_file(kept))} rows\n")


if __name__ == "__main__":
    main()
