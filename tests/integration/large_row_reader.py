"""Plans and reads a range through the binlog source in a process of its own, and says what that took.

    python -m tests.integration.large_row_reader HOST:PORT DATABASE STORE OFFSET

prints JSON: rows, each with what its column `b` became; peak of resident memory in MiB. OFFSET is JSON.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from databus.core.connections import Connection
from databus.core.flow_specs import FlowContext
from databus.core.positions.offsets import offset_from_json
from databus.core.settings import Settings
from databus.sources.mysql.spec import MysqlBinlog
from tests.contract.source_contract import EVERYTHING


class _One:
    def __init__(self, connection: Connection):
        self._connection = connection

    def get(self, conn_id: str) -> Connection:
        return self._connection


def main(address: str, database: str, store: str, offset: str) -> dict[str, Any]:
    host, port = address.split(":")
    connection = Connection(conn_id="shop", conn_type="mysql", host=host, port=int(port), login="root")
    spec = MysqlBinlog(conn_id="shop", tables=(f"{database}.*",), snapshot="never")
    source = spec.open(_One(connection), FlowContext("large", Settings("test", store, "", "")))
    plan = source.plan(offset_from_json(json.loads(offset)), EVERYTHING)
    assert plan is not None
    rows: list[dict[str, Any]] = []
    for split in source.splits(plan, 1):
        for batch in split.read_text({}):  # type: ignore[attr-defined] # a split of segments
            for row in batch.to_pylist():
                images = {name: json.loads(row[name]) if row[name] else None for name in ("before", "after")}
                rows.append({"op": row["op"], "flags": row["flags"], **images})
    source.close()
    peak = next(line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("VmHWM:"))
    return {"rows": [r for r in rows if r["op"] != "m"], "bytes": plan.bytes, "peak_mib": int(peak.split()[1]) >> 10}


if __name__ == "__main__":
    print(json.dumps(main(*sys.argv[1:5])))  # noqa: T201
