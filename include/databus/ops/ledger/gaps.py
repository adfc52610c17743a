"""Gaps of a flow: noting one that nobody was there to run into."""

from __future__ import annotations

from databus.core.errors.checkpoint import LeaseBusyError
from databus.core.flow import Flow
from databus.core.flow_specs import FlowContext
from databus.core.positions.gaps import Gap
from databus.ops.checkpoint.targets import missing
from databus.runtime.context import Services
from databus.runtime.gap_notes import note_purged


def note_gap(flow: Flow, services: Services, who: str, run_url: str = "") -> Gap | None:
    """Note what the source's server deleted behind the checkpoint, under a claim of the flow for the moment.

    Args:
        flow: the flow.
        services: its services.
        who: run id.
        run_url: address of the run's page.

    Returns:
        The open gap; None when nothing is missing, or a run holds the flow and will run into it itself.
    """
    checkpoint = services.store.load(flow.name)
    if checkpoint is None:
        return None
    source = flow.source.open(services.connections, FlowContext(flow.name, services.settings, services.server_ids))
    try:
        error = missing(source, checkpoint)
    finally:
        source.close()
    if error is None or error.missing is None:
        return None
    try:
        lease = services.store.claim(flow.name, f"preflight of {who}", 0.0, run_url)
    except LeaseBusyError:
        return None
    try:
        return note_purged(services.store, flow.name, lease, error, (who, run_url, services.clock.now()))
    finally:
        lease.release()
