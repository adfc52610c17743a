"""`python -m databus.demo`: the main job, end to end, on real servers; the exit code says whether all arrived."""

from __future__ import annotations

import argparse
import logging
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pymysql
from rich.console import Console
from rich.table import Table

from databus.core.errors.config import SandboxError
from databus.core.errors.root import DatabusError
from databus.demo.airflow_api import AirflowApi
from databus.demo.consumers import holds_a_record
from databus.demo.shop import ShopTotals, ShopWriter, create_shop, keys_in_shop
from databus.demo.verdict import FlowVerdict, Judge
from databus.sandbox import Sandbox, SandboxOptions
from databus.sandbox.accounts import APPLICATION, logins
from databus.sandbox.terminal_progress import drawn

_MISMATCHES_SHOWN = 10
_RUNS_SHOWN = 3
_WIDTH = 112
"""Columns of a terminal that the table needs; where there is none, rich would take 80."""

SERVERS = ("zookeeper", "kafka", "mysql", "opensearch", "spark")
"""Without Airflow, which begins when the shop has its rows."""
FLOWS = ("orders_to_kafka", "orders_to_search", "shop_fan_out")
_FIRST_TOPIC = "cdc.orders"
_PARTS = 20

if TYPE_CHECKING:
    # Generic to mypy alone.
    Connection = pymysql.connections.Connection[Any]

console = Console(stderr=True, highlight=False)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the demonstration and return 0 when every flow delivered every change once."""
    options = _options(arguments)
    logging.basicConfig(level=logging.WARNING, stream=sys.stderr)
    # Reading a DAG file loads Airflow, which sets the root logger to INFO.
    logging.getLogger("databus").setLevel(logging.WARNING)
    sandbox = Sandbox(
        options.home,
        ports_from=options.ports_from,
        options=SandboxOptions(
            dags_folder=(options.project / "dags").absolute(), plugins_folder=(options.project / "plugins").absolute()
        ),
    )
    stage = Stage()
    try:
        stage.say(f"starting {', '.join(SERVERS)}")
        sandbox.destroy()
        (options.home / "records.db").unlink(missing_ok=True)
        with drawn(console) as progress:
            sandbox.up(SERVERS, progress)
        with _shop_connection(sandbox) as connection:
            writer = _fill(connection, options.rows_before)
            stage.say(f"the shop holds {len(writer.written.before):,} rows; starting airflow")
            with drawn(console) as progress:
                sandbox.up(("airflow",), progress)
            verdicts = _run(sandbox, connection, writer, options, stage)
        show(verdicts, stage.first_row_s)
        return 0 if verdicts and all(v.passed for v in verdicts) else 1
    except DatabusError as error:
        console.print(f"error: {error.message}\n  {error.hint}", style="red", markup=False)
        return 1
    finally:
        if options.keep:
            _addresses(sandbox)
        else:
            sandbox.down()


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m databus.demo", description=__doc__)
    parser.add_argument("--home", type=Path, default=Path(".sandbox/demo"), help="folder of the servers; emptied first")
    parser.add_argument("--project", type=Path, default=Path(), help="folder that holds dags/ and plugins/")
    parser.add_argument("--ports-from", type=int, help="choose free ports from this number on, not the servers' own")
    parser.add_argument(
        "--rows-before", type=int, default=1000, help="transactions that fill the shop before Airflow starts"
    )
    parser.add_argument("--transactions", type=int, default=2000, help="transactions that the writer commits")
    parser.add_argument("--seconds", type=float, default=40, help="how long the writer takes for them, about")
    parser.add_argument("--timeout", type=float, default=600, help="seconds to wait for the flows to catch up")
    parser.add_argument("--keep", action="store_true", help="leave everything running and print the addresses")
    return parser.parse_args(arguments)


@dataclass
class Stage:
    """The clock of the demonstration, and what it prints while it goes on."""

    started: float = field(default_factory=time.monotonic)
    first_row_s: float | None = None

    @property
    def elapsed_s(self) -> float:
        """Seconds since the command."""
        return time.monotonic() - self.started

    def say(self, text: str) -> None:
        """Print a line with the time."""
        console.print(f"{self.elapsed_s:6.1f} s  {text}", markup=False)

    def look_for_first_row(self, sandbox: Sandbox) -> None:
        """Note when the first row can be read in Kafka."""
        if self.first_row_s is None and holds_a_record(sandbox.address("kafka"), _FIRST_TOPIC):
            self.first_row_s = self.elapsed_s
            self.say("the first row can be read in Kafka")


def _fill(connection: Connection, transactions: int) -> ShopWriter:
    """Create the shop, and let it have rows, orders that were removed among them, before there is any flow."""
    create_shop(connection)
    writer = ShopWriter(connection)
    writer.run(transactions)
    writer.written = ShopTotals(before=keys_in_shop(connection))
    return writer


def _run(
    sandbox: Sandbox, connection: Connection, writer: ShopWriter, options: argparse.Namespace, stage: Stage
) -> list[FlowVerdict]:
    """Let Airflow run the flows, change the shop once each has begun, and judge what arrived."""
    with AirflowApi(sandbox.address("airflow")) as api:
        _wait_for_dags(api, options)
        stage.say("Airflow runs the flows every minute; each begins with the rows that are there")
        judge = Judge(sandbox, connection, writer.written, api, options.project / "dags")
        _wait_for_flows(sandbox, judge, options, stage)
        stage.say("each flow has begun; the writer changes the shop")
        for part in range(1, _PARTS + 1):
            writer.run(options.transactions * part // _PARTS - writer.written.transactions)
            stage.look_for_first_row(sandbox)
            if part % (_PARTS // 4) == 0:
                stage.say(f"writer: {writer.written.transactions} of {options.transactions} transactions")
            time.sleep(options.seconds / _PARTS)
        stage.say(f"writer done: {sum(writer.written.changes.values()):,} row changes; waiting for the flows")
        deadline = time.monotonic() + options.timeout
        while True:
            stage.look_for_first_row(sandbox)
            verdicts = [judge.verdict(flow) for flow in FLOWS]
            if all(v.passed for v in verdicts) or time.monotonic() > deadline:
                for verdict in verdicts:
                    judge.add_lag(verdict)
                return verdicts
            time.sleep(2)


def _wait_for_flows(sandbox: Sandbox, judge: Judge, options: argparse.Namespace, stage: Stage) -> None:
    """Wait until each flow stands somewhere: what is written from then on comes as changes, all before as rows.

    Raises:
        SandboxError: one does not begin.
    """
    deadline, left = time.monotonic() + options.timeout, set(FLOWS)
    while left := {flow for flow in left if not judge.begun(flow)}:
        stage.look_for_first_row(sandbox)
        if time.monotonic() > deadline:
            raise SandboxError(f"{', '.join(sorted(left))}: no run has begun", hint="See the runs in Airflow.")
        time.sleep(1)


def _shop_connection(sandbox: Sandbox) -> Connection:
    host, port = sandbox.address("mysql").split(":")
    return pymysql.connect(
        host=host, port=int(port), user=APPLICATION.user, password=APPLICATION.password.get_secret_value(),
        charset="utf8mb4", autocommit=True, init_command="SET time_zone='+00:00'",
    )  # fmt: skip


def _wait_for_dags(api: AirflowApi, options: argparse.Namespace) -> None:
    try:
        api.wait_for(FLOWS, options.timeout)
    except DatabusError as error:
        hint = f"{error.hint} Start the demonstration where dags/ is, or name --project."
        raise DatabusError(error.message, hint=hint) from error


def _addresses(sandbox: Sandbox) -> None:
    for server in sandbox.status():
        scheme = "http://" if server.name in ("airflow", "opensearch") else ""
        console.print(f"{server.name:<12} {scheme}{server.address}", markup=False)
        for account in logins(server.name):
            console.print(f"{'':<12} {account.login()} ({account.purpose})", markup=False)
    console.print("airflow and the others ask for no login", markup=False)
    console.print(f"stop with: databus sandbox down --home {sandbox.home}", markup=False)


def show(verdicts: Sequence[FlowVerdict], first_row_s: float | None) -> None:
    """Print the result to standard output."""
    console = Console(highlight=False, soft_wrap=True)
    console.width = max(console.width, _WIDTH)
    table = Table(title="What arrived, compared by key and value", title_justify="left")
    for name in ("flow", "rows before", "changes since", "messages in Kafka", "documents", "mismatches", "lag", "runs"):
        table.add_column(name, justify="left" if name == "flow" else "right", no_wrap=True)
    for v in verdicts:
        table.add_row(
            v.flow,
            f"{v.rows_before:,}",
            f"{v.source_rows:,}",
            "-" if v.messages is None else f"{v.messages:,}",
            "-" if v.documents is None else f"{v.documents:,}",
            f"[{'red' if v.problems else 'green'}]{len(v.problems)}[/]",
            "-" if v.lag_s is None else f"{v.lag_s:.1f} s",
            str(len(v.runs)),
        )
    console.print(table)
    if first_row_s is not None:
        console.print(f"first row in Kafka {first_row_s:.0f} s after the command")
    for v in verdicts:
        for run in v.runs[:_RUNS_SHOWN]:
            console.print(f"{run.state:<8} {run.address}", markup=False)
    for v in verdicts:
        for problem in v.problems[:_MISMATCHES_SHOWN]:
            console.print(f"{v.flow}: {problem}", style="red", markup=False)
