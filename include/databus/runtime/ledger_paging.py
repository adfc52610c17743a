"""Page out: copy history from the checkpoint store into the ledger's pages, and let the checkpoint store trim it."""

from __future__ import annotations

import logging

from databus.core.errors.batch import RecordingError
from databus.core.errors.checkpoint import CheckpointError
from databus.core.protocols.recorder import Recorder
from databus.core.state.checkpoint_store import History

log = logging.getLogger(__name__)

PAGE_EVERY = 100
"""Batches between two times; until then history stays in the checkpoint store, so that nothing rests on it."""


def page_out(store: History, recorder: Recorder, flow: str) -> int | None:
    """Write pages of all history that has none, and the reports that a kill left missing; call it under the lease.

    A failure is logged: the history stays in the checkpoint store until a later call succeeds.

    Returns:
        The greatest number up to which history and pages agree, None when there is no history, it cannot be read, or
        pages cannot be written.
    """
    try:
        agreed = _page(store, recorder, flow)
        if agreed is not None:
            store.recorded(flow, agreed)
    except (RecordingError, CheckpointError) as error:
        log.warning("flow %s: ledger pages not written, history is kept until they are: %s", flow, error)
        return None
    return agreed


def _page(store: History, recorder: Recorder, flow: str) -> int | None:
    newest = store.history(flow, 1)
    if not newest:
        return None
    head, paged = newest[0].number, recorder.paged(flow)
    if 0 < paged <= head:
        # The newest page is compared once more: a flow whose nodes were made anew numbers its entries from 1 again.
        agreed = recorder.page(flow, store.history(flow, head - paged + 1)[::-1])
        if agreed == head:
            return agreed
    return recorder.page(flow, store.history(flow, head)[::-1])
