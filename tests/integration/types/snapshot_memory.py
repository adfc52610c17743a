"""Peak memory of reading cells.lobs in a process of its own: `python -m …snapshot_memory FLAVOR PORT`, as JSON."""

from __future__ import annotations

import json
import sys
from pathlib import Path

from databus.binlog.schema_history.definition import TableName
from databus.binlog.server.wire import ServerConnection
from databus.core.connections import Connection
from databus.sources.mysql.server import MysqlServer
from databus.sources.mysql.snapshot.logged_table import logged_table
from databus.sources.mysql.snapshot.table_reader import read_table
from databus.sources.mysql.tables.information_schema import MysqlColumns


def status_mb(name: str) -> float:
    """A line of /proc/self/status: VmRSS is the memory now, VmHWM its peak."""
    lines = dict(line.split(":") for line in Path("/proc/self/status").read_text().splitlines())
    return int(lines[name].split()[0]) / 1024


def main(flavor: str, port: int) -> None:
    connection = Connection(conn_id="shop", conn_type="mysql", host="127.0.0.1", port=port, login="root")
    control = MysqlServer(connection)
    definition = MysqlColumns(control).definitions(["cells"])[TableName("cells", "lobs")]
    control.close()
    table, opened = logged_table(definition, flavor), ServerConnection(connection)
    assert list(read_table(opened, table, "n < 0", table.to_schema(0))) == []
    Path("/proc/self/clear_refs").write_text("5")  # the peak of loading and compiling is none of reading
    before, rows, size = status_mb("VmRSS"), 0, 0
    for batch in read_table(opened, table, "", table.to_schema(0)):
        rows += len(batch)
        size += sum(len(value) for value in batch.images.column("b").to_pylist())
        size += sum(len(value.as_buffer()) for value in batch.images.column("t"))
    opened.close()
    sys.stdout.write(json.dumps({"rows": rows, "bytes": size, "mb_before": before, "peak_mb": status_mb("VmHWM")}))


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
