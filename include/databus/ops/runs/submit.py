"""The spark-submit job's body: the flow comes as JSON, connections as AIRFLOW_CONN_ environment variables."""

from __future__ import annotations

import argparse
import json
import logging
import sys
from collections.abc import Sequence
from dataclasses import replace

from databus import __version__
from databus.connections.environment import EnvironmentConnections
from databus.core.errors.checkpoint import FlowPausedError
from databus.core.errors.entries import told_with_more
from databus.core.errors.root import DatabusError
from databus.ops.runs.run import run_flow
from databus.ops.services import open_services
from databus.registry import flow_from_json
from databus.runtime.context import RunIdentity
from databus.runtime.drain import Drain, drain_on_signals
from databus.runtime.spark.session import classic_session
from databus.runtime.window_limits import WindowControl, WindowLimits

log = logging.getLogger(__name__)


def main(arguments: Sequence[str]) -> int:
    """Run one window in this Spark application; the exit code is for an operator's machinery.

    Returns:
        0 moved; `EXIT_PAUSED` a person has paused the flow; `EXIT_RETRY` a retry may help; `EXIT_REFUSED` only a person
        can help. Anything else, such as Python's 1 for an error nobody expected or a signal's number, says nothing: a
        retry does no harm.
    """
    parser = argparse.ArgumentParser(description="Run one window of a databus flow.")
    parser.add_argument("--flow", required=True, help="the flow as JSON (Flow.to_json)")
    parser.add_argument("--run-id", required=True, help="Airflow run id")
    parser.add_argument("--run-url", default="", help="address of the run's page")
    parser.add_argument("--window-seconds", type=float, default=50.0, help="begin no new batch after this long")
    parser.add_argument("--until-caught-up", action="store_true", help="end when the source has nothing new")
    options = parser.parse_args(arguments)
    line = "%(asctime)s %(levelname)s %(name)s %(message)s"
    logging.basicConfig(level=logging.INFO, stream=sys.stderr, format=line, force=True)
    flow = flow_from_json(json.loads(options.flow))
    identity = RunIdentity(options.run_id, options.run_url, __version__)
    limits = WindowLimits.of_a_run(options.window_seconds, flow.mode)
    limits = replace(limits, until_caught_up=limits.until_caught_up or options.until_caught_up)
    control = WindowControl(limits, Drain())
    spark = classic_session()
    try:
        with drain_on_signals(control.drain), open_services(flow, EnvironmentConnections()) as services:
            run_flow(flow, services, spark, identity, control)
    except FlowPausedError as error:
        log.warning("%s", error)
        return EXIT_PAUSED
    except DatabusError as error:
        log.error("%s", told_with_more(error))
        return EXIT_RETRY if error.retryable else EXIT_REFUSED
    finally:
        spark.stop()
    return 0


EXIT_RETRY = 75
"""EX_TEMPFAIL of sysexits.h: the same window may succeed when started again."""

EXIT_REFUSED = 78
"""EX_CONFIG of sysexits.h: a setting, the source or the data has to be mended first."""

EXIT_PAUSED = 79
"""None of sysexits.h: nothing was to be done, and nothing went wrong."""
