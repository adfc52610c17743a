"""A flow with row checks and a suite of Great Expectations, over rows that are known one by one."""

from __future__ import annotations

import json
import secrets
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from databus.records.quality.great_expectations_context import great_expectations
from tests.e2e.airflow_world import AirflowWorld, Run
from tests.e2e.hidden_till import PREFIX

FLOW_FILE = """
from databus import Batching, Expectations, Flow, InRange, Kafka, MysqlBinlog, NotNull, Volume
from databus.airflow import flow_dag

flow = Flow(
    name={name!r},
    source=MysqlBinlog(conn_id="mysql_shop", tables=("{name}.*",), start={start!r}),
    checks=(
        NotNull("email", tables=("{name}.orders",)),
        InRange("quantity", minimum=1, tables=("{name}.items",), severity="warn"),
        Volume(maximum_rows=1000),
    ),
    expectations=Expectations("suites/{name}.json", tables=("{name}.orders",)),
    sinks=(Kafka(conn_id="kafka_east", topic={name!r}, partitions=2, routes=("{name}.orders", "{name}.items")),),
    batching=Batching(max_rows=40),
    mode="economy",
)
dag = flow_dag(flow, schedule=None, tasks="separate", snapshots=True)
"""
TABLES = (
    "orders (order_id BIGINT PRIMARY KEY, email VARCHAR(40) NULL, status VARCHAR(10) NOT NULL, total INT NOT NULL)",
    "items (order_id BIGINT, line INT, quantity INT NOT NULL, PRIMARY KEY (order_id, line))",
    "visits (visit_id BIGINT PRIMARY KEY)",
)
STATES = ("new", "paid", "shipped")
ORDERS = [
    (n, None if n % 10 == 0 else f"c{n}@example.org", "lost" if n % 6 == 0 else STATES[n % 3], -1 if n == 7 else n)
    for n in range(1, 31)
]
ITEMS = [(n % 30 + 1, n // 30, 0 if n % 11 == 0 else n) for n in range(1, 46)]
VISITS = [(n,) for n in range(1, 13)]


def expected() -> Any:
    """Return the suite: judged as rows pass (not met, met by its share), by counts, and by the rows read again."""
    gx = great_expectations()
    e = gx.expectations
    return gx.ExpectationSuite(
        name="orders",
        expectations=[
            e.ExpectColumnValuesToBeInSet(column="status", value_set=list(STATES)),
            e.ExpectColumnValuesToBeBetween(column="total", min_value=0, mostly=0.9),
            e.ExpectTableRowCountToBeBetween(min_value=1, max_value=1000),
            e.ExpectColumnValuesToBeUnique(column="order_id"),
        ],
    )


@dataclass(frozen=True)
class Till:
    """The flow, and the one run of it.

    Attributes:
        name: of the flow, its DAG, its database and its topic.
        run: the run; over, and well.
    """

    name: str
    run: Run


def till_run(airflow: AirflowWorld) -> Till:
    """Make a database, a suite file and a DAG file, change rows, and let Airflow run the flow over them."""
    name = f"{PREFIX}{secrets.token_hex(3)}"  # another one each time: servers may stay between test runs
    with airflow.connection.cursor() as cursor:
        cursor.execute(f"CREATE DATABASE {name}")
        for table in TABLES:
            cursor.execute(f"CREATE TABLE {name}.{table}")
        cursor.execute("SHOW MASTER STATUS")
        file, position = cursor.fetchone()[:2]
        for table, rows in (("orders", ORDERS), ("items", ITEMS), ("visits", VISITS)):
            places = ", ".join(["%s"] * len(rows[0]))
            cursor.executemany(f"INSERT INTO {name}.{table} VALUES ({places})", rows)
    _write_files(airflow.dags, name, f"{file}:{position}")
    airflow.knows({name})
    return Till(name, airflow.trigger(name).succeeds())


def _write_files(dags: Path, name: str, start: str) -> None:
    (dags / "suites").mkdir(exist_ok=True)
    (dags / "suites" / f"{name}.json").write_text(json.dumps(expected().to_json_dict()))
    (dags / f"{name}.py").write_text(FLOW_FILE.format(name=name, start=start))
