"""The window of a scheduled run as a process of its own: what the `transfer` task does, without Airflow above it.

Arguments: the flow as JSON, the run's id, the Spark Connect address or "" for an engine in this process, the Spark
session's name, the window's seconds.
"""

from __future__ import annotations

import json
import logging
import sys

from databus import __version__
from databus.connections.environment import EnvironmentConnections
from databus.core.errors import DatabusError
from databus.ops.runs.run import run_flow
from databus.ops.services import open_services
from databus.registry import flow_from_json
from databus.runtime.context import RunIdentity
from databus.runtime.drain import Drain, drain_on_signals
from databus.runtime.spark.session import connect_session
from databus.runtime.window_limits import WindowControl, WindowLimits
from tests.integration.one_process import OneProcess

REFUSED = 3


def main(flow_json: str, run_id: str, spark: str, session: str, seconds: str) -> int:
    """Run the window; an error of ours is the last line that is written, as `class: message`."""
    logging.basicConfig(level=logging.INFO, stream=sys.stderr, force=True)
    flow = flow_from_json(json.loads(flow_json))
    control = WindowControl(WindowLimits.of_a_run(float(seconds), flow.mode), Drain())
    try:
        with drain_on_signals(control.drain), open_services(flow, EnvironmentConnections()) as services:
            engine = connect_session(spark, session) if spark else OneProcess()
            run_flow(flow, services, engine, RunIdentity(run_id, "", __version__), control)
    except DatabusError as error:
        sys.stderr.write(f"\n{type(error).__name__}: {error}\n")
        return REFUSED
    return 0


if __name__ == "__main__":
    raise SystemExit(main(*sys.argv[1:]))
