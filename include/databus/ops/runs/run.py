"""Run a window of a flow: used by Airflow's transfer task, the spark-submit job and `databus run`."""

from __future__ import annotations

import logging
from typing import Any

from databus.core.flow import Flow
from databus.core.positions.lag import duration_text
from databus.ops.health.distance import distance
from databus.ops.health.preflight import require_tables
from databus.ops.mirror.run_tasks import with_duties
from databus.ops.services import naming_flow
from databus.runtime.context import RunIdentity, Services, open_session
from databus.runtime.window import run_window
from databus.runtime.window_limits import WindowControl
from databus.runtime.window_result import WindowResult

log = logging.getLogger(__name__)


def run_flow(flow: Flow, services: Services, spark: Any, identity: RunIdentity, control: WindowControl) -> WindowResult:
    """Open the flow, run one window, close everything; log what moved and how far behind the flow is.

    Raises:
        ConfigError: a table or column that the flow asks for is not there, see `require_tables`.
        DecodeError: a part of the log is not understood; names flow and server.
        DatabusError: see `run_window`.
    """
    with (
        with_duties(flow, services, control) as (steered, at_the_end),
        open_session(flow, services, spark, identity) as session,
    ):
        missing = require_tables(flow, services, session.source, hands_over=flow.mode == "live")
        with naming_flow(flow):
            result = run_window(session, steered, missing)
        at_the_end()
        lag, result.headroom = distance(flow, services.store, session.source, result.checkpoint.offset)
        result.lag_bytes, result.lag_s = lag.bytes, lag.seconds
        result.missing_tables = missing.names
        missing.note(result.checkpoint)
    log.info(
        "flow %s: window over: %d batches, %s; %d bytes; at %s; lag %s bytes, %s s%s",
        flow.name,
        result.batches,
        result.counts,
        result.bytes,
        result.checkpoint.offset,
        "?" if lag.bytes is None else lag.bytes,
        "?" if lag.seconds is None else f"{lag.seconds:.1f}",
        " (drained)" if result.drained else "",
    )
    if result.lag_bytes:
        eta = "unknown: nothing was moved" if result.eta_s is None else duration_text(result.eta_s)
        log.info("flow %s: catching up: %d bytes are left; time to the head at this window's rate: %s",
                 flow.name, result.lag_bytes, eta)  # fmt: skip
    if result.headroom is not None and result.headroom.low:
        log.warning("flow %s: retention headroom is low: %s", flow.name, result.headroom)
    if result.missing_tables:
        log.warning("flow %s: nothing comes of %s: not there", flow.name, ", ".join(result.missing_tables))
    for sink, counts in result.sinks.items():
        if counts.rejected:
            log.warning("flow %s: NOT WELL: sink %s refused %d rows, and took %d; they are in quarantine",
                        flow.name, sink, counts.rejected, counts.dispatched)  # fmt: skip
    for sink, offset in result.behind.items():
        log.warning("flow %s: sink %s is behind: it stands at %s", flow.name, sink, offset)
    return result
