"""`make faults-scheduler`: kill -9 of a real Airflow scheduler under a flow that runs on schedule, again and again.

LocalExecutor's workers are children of the scheduler: what becomes of a task in hand is part of what is tried. A killed
scheduler is started again after a while, as its supervisor would do; recovery is from then on to the next batch.
"""

from __future__ import annotations

import argparse
import random
import sys
import tempfile
import time
from pathlib import Path

from databus.demo.airflow_api import AirflowApi
from databus.demo.shop import ShopWriter, create_shop
from databus.sandbox import Sandbox, SandboxOptions
from tests.e2e.airflow_world import AirflowWorld, flow_file, shop_connection, until
from tests.faults.mixed.scene import quiet
from tests.faults.report import RESULTS, Report, say

FLOW = "faults_scheduler"
KIND = "scheduler killed"
_SERVERS = ("zookeeper", "kafka", "mysql", "spark", "airflow")
_WITHIN_S = 600.0
_SOON_NOTICED = {
    # Airflow's defaults leave the task of a dead scheduler "running" for five minutes (docs/runbooks/airflow.md).
    "AIRFLOW__SCHEDULER__TASK_INSTANCE_HEARTBEAT_TIMEOUT": "30",
    "AIRFLOW__SCHEDULER__TASK_INSTANCE_HEARTBEAT_TIMEOUT_DETECTION_INTERVAL": "5",
    "AIRFLOW__SCHEDULER__ORPHANED_TASKS_CHECK_INTERVAL": "15",
    "AIRFLOW__SCHEDULER__SCHEDULER_HEALTH_CHECK_THRESHOLD": "15",
}


def main() -> int:
    parser = argparse.ArgumentParser(prog="tests.faults.mixed.scheduler", description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seed", type=int, default=int(time.time()))
    parser.add_argument("--ports-from", type=int, default=29_300)
    options = parser.parse_args()
    report, chance = Report(options.seed), random.Random(options.seed)
    with tempfile.TemporaryDirectory(prefix="databus-scheduler-") as made:
        home, dags = Path(made) / "home", Path(made) / "dags"
        dags.mkdir()
        flow_file(dags, FLOW, max_rows=400, every_s=15)
        sandbox = Sandbox(
            home, ports_from=options.ports_from, options=SandboxOptions(dags_folder=dags, airflow_env=_SOON_NOTICED)
        )
        try:
            sandbox.up(_SERVERS)
            with shop_connection(sandbox) as connection, AirflowApi(sandbox.address("airflow")) as api:
                create_shop(connection)
                until("the flow is known", api.dags, _WITHIN_S)
                world = AirflowWorld(sandbox, home, dags, api, connection, ShopWriter(connection, seed=options.seed))
                _play(world, report, options.rounds, chance)
        finally:
            sandbox.destroy()
            report.save(RESULTS / f"scheduler-{options.seed}.json")
    sys.stdout.write(f"{report.table()}\nseed {options.seed}: {'clean' if report.clean else 'FINDINGS'}\n")
    return 0 if report.clean else 1


def _play(world: AirflowWorld, report: Report, rounds: int, chance: random.Random) -> None:
    world.api.pause(FLOW, False)
    with world.writing(), world.store() as store:

        def batch() -> int:
            checkpoint = store.load(FLOW)
            return checkpoint.batch if checkpoint is not None else 0

        until("the first batch", batch, _WITHIN_S)
        for number in range(rounds):
            world.in_mid_batch(FLOW)
            time.sleep(chance.uniform(0, 1.5))
            world.sandbox.kill("airflow", "scheduler")
            report.note(f"round {number}: the scheduler is killed")
            time.sleep(chance.choice((0.5, 3.0, 8.0)))
            world.sandbox.restart("airflow", "scheduler", progress=quiet)
            since, before = time.monotonic(), batch()
            try:
                until("a batch after the scheduler's return", lambda before=before: batch() > before, _WITHIN_S)
            except AssertionError as error:
                report.find("stuck", KIND, str(error))
                return
            took = time.monotonic() - since
            report.recovery_s.setdefault(KIND, []).append(took)
            report.rounds[KIND] += 1
            say(f"round {number}: next batch after {took:.1f} s")
    until("all changes have arrived", lambda: world.has_all(FLOW), _WITHIN_S)
    world.api.pause(FLOW, True)
    try:
        world.assert_all_arrived_once(FLOW)
    except AssertionError as error:
        report.find("lost", KIND, str(error)[:2000])


if __name__ == "__main__":
    sys.exit(main())
