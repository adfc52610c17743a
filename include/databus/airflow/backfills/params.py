"""Requests to the backfill DAG, in words: by the trigger form or by a data interval."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from databus.core.state.backfill import Mode

_LONGEST = 120


@dataclass(frozen=True)
class BackfillParams:
    """Request of one backfill run.

    Attributes:
        start: from, "" when it is missing.
        end: to, "" when it is missing.
        run_type: "manual", "backfill" or "scheduled".
        mode: "missing" or "replay".
        suffix: put behind the names of a replay's outputs; "" for the live ones.
        name: distinguishes replays of one range.
    """

    start: str
    end: str
    run_type: str
    mode: str
    suffix: str
    name: str

    @property
    def scheduled(self) -> bool:
        """Return whether it moves nothing: it only looks whether anything is missing."""
        return self.run_type == "scheduled"

    @property
    def title(self) -> str:
        """Title of the backfill, for people."""
        range_ = f"from {self.start or '?'} to {self.end or '?'}"
        return f"look at what is missing {range_}" if self.scheduled else f"backfill ({self._aim}) {range_}"

    @property
    def subject(self) -> str:
        """Name that all runs of the same range and aim share; scheduled ones share one, whatever their interval."""
        if self.scheduled:
            return "backfill scheduled"
        subject = f"backfill {self._aim} {_same(self.start)} to {_same(self.end)}"
        if len(subject) <= _LONGEST:  # a GTID set or an offset as JSON may be long
            return subject
        return f"backfill {hashlib.sha256(subject.encode()).hexdigest()[:12]}"

    @property
    def _aim(self) -> str:
        return " ".join(filter(None, (self.mode, self.suffix, self.name)))


def asked_of(context: Any) -> BackfillParams:
    """Return what the run of a context was asked for; contexts of callbacks may lack much of it."""
    run = context.get("dag_run")
    params: Mapping[str, Any] = context.get("params") or getattr(run, "conf", None) or {}
    run_type = run_type_of(run)
    start, end = params.get("from"), params.get("to")
    if not start and not end and run_type in ("backfill", "scheduled"):
        start, end = (_interval(context, run, name) for name in ("data_interval_start", "data_interval_end"))
    mode = str(params.get("mode") or Mode.MISSING)
    beside = mode == Mode.REPLAY and not params.get("into_live")
    suffix, name = (str(params.get(word) or "") for word in ("suffix", "name"))
    named = name if mode == Mode.REPLAY else ""
    return BackfillParams(str(start or ""), str(end or ""), run_type, mode, suffix if beside else "", named)


def run_type_of(run: Any) -> str:
    """Return a DAG run's type as Airflow's REST API calls it."""
    kind = getattr(run, "run_type", "manual")
    return str(getattr(kind, "value", kind))


def _interval(context: Any, run: Any, name: str) -> str:
    when = context.get(name) or getattr(run, name, None)
    return when.isoformat() if when else ""


def _same(place: str) -> str:
    """Return one spelling of a time, and any other place as it is."""
    from databus.ops.backfill.places import moment

    when = moment(place)
    return when.isoformat() if when else place
