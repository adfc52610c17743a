"""A flow of two tables of which the small one does not compile: all direct, in two lanes, and all through Spark.

`python -m databus.bench.two_lanes --changes 200000`, from a checkout; it starts its own servers. The rows of the small
table are written by a trigger, inside the large one's transactions: the lanes' rows interleave.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from contextlib import closing
from datetime import timedelta
from typing import Any

from databus import Batching, Filter, Flow, Kafka, MysqlBinlog
from databus.bench import orders
from databus.bench.e2e import head
from databus.bench.log_files import log_writer
from databus.bench.our_path import OurPath
from databus.bench.processes import fresh_servers, path_servers

_NOTES = (
    "CREATE TABLE bench.notes (id BIGINT NOT NULL PRIMARY KEY, text VARCHAR(200) NULL, at DATETIME(6) NOT NULL)",
    """CREATE TRIGGER bench.note AFTER INSERT ON bench.orders FOR EACH ROW
        INSERT INTO bench.notes SELECT NEW.id, NEW.title, NEW.created_at FROM DUAL WHERE NEW.id % {} = 0""",
)
_SPARK_ALONE = Filter("xpath_boolean('<a><b>1</b></a>', 'a/b')", tables=("bench.notes",))


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure and print a line of JSON per way and round."""
    parser = argparse.ArgumentParser(prog="python -m databus.bench.two_lanes")
    parser.add_argument("--changes", type=int, default=200_000, help="row changes of the large table")
    parser.add_argument("--every", type=int, default=10, help="one note for so many orders inserted")
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--ports-from", type=int, default=22_000)
    options = parser.parse_args(arguments)
    with (
        fresh_servers(path_servers(debezium=False), _say, options.ports_from) as sandbox,
        closing(OurPath(sandbox)) as ours,
    ):
        with log_writer(sandbox, "mysql") as writer:
            orders.create(writer.connection)
            with writer.connection.cursor() as cursor:
                for statement in _NOTES:
                    cursor.execute(statement.format(options.every))
            first = head(writer)
            orders.load(writer.connection, 10_000)
            start = head(writer)
            orders.load(writer.connection, options.changes)
        for number in range(options.rounds + 1):
            for way in ("direct", "both", "spark"):
                flow = _flow(f"{way}_{number}", way, start if number else first)
                found = ours.timed(flow)
                if number:  # the first round warms up
                    _tell(way, found)
    return 0


def _flow(name: str, way: str, start: str) -> Flow:
    return Flow(
        name=name,
        source=MysqlBinlog(conn_id="mysql_shop", tables=("bench.orders", "bench.notes"), start=start),
        transforms=() if way == "direct" else (_SPARK_ALONE,),
        sinks=(Kafka(conn_id="kafka_east", topic=name, tombstones=False),),
        batching=Batching(max_rows=500_000, max_bytes=1 << 30, max_wait=timedelta(seconds=0.2)),
        lane="spark" if way == "spark" else "auto",
    )


def _tell(way: str, found: Any) -> None:
    figures = {
        "way": way, "rows": found.rows, "batches": found.batches, "seconds": round(found.seconds, 2),
        "cpu_seconds": round(found.cpu_seconds, 2), "rows_per_second": round(found.rows / found.seconds),
        "cpu_us_per_row": round(found.cpu_seconds / found.rows * 1e6, 1), "stages_ms": found.stages_ms,
    }  # fmt: skip
    print(json.dumps(figures))  # noqa: T201 - a measurement's output


def _say(text: str) -> None:
    print(text, file=sys.stderr)  # noqa: T201


if __name__ == "__main__":
    sys.exit(main())
