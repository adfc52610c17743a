"""Answers by route, written into the description of the API."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel
from pydantic.json_schema import models_json_schema

from databus.web.answers import accounts, checkpoints, flows, mirrors, quarantine, snapshots, trace

_DAG = "/dags/{dag_id}"
_MOVES = ("pause", "resume", "rewind", "skip", "restore", "adopt", "accept")

ANSWERS: dict[str, type[BaseModel]] = {
    "/flows": flows.Recorded,
    "/delays": flows.DelaysAnswer,
    "/definitions": flows.FlowPage,
    "/checkpoints": checkpoints.CheckpointPage,
    "/trace": trace.Traced,
    f"{_DAG}/runs/{{run_id}}": flows.RunView,
    f"{_DAG}/flow": flows.FlowView,
    f"{_DAG}/images": trace.ImagesAnswer,
    f"{_DAG}/definition": flows.DefinitionAnswer,
    f"{_DAG}/lanes": flows.Lanes,
    f"{_DAG}/graph": flows.Drawn,
    f"{_DAG}/checkpoint": checkpoints.CheckpointState,
    f"{_DAG}/checkpoint/history": checkpoints.HistoryPage,
    f"{_DAG}/checkpoint/preview": checkpoints.Previewed,
    **{f"{_DAG}/checkpoint/{move}": checkpoints.Amended for move in _MOVES},
    f"{_DAG}/quarantine": quarantine.CausePage,
    f"{_DAG}/quarantine/rows": quarantine.RowPage,
    f"{_DAG}/quarantine/preview": quarantine.ReplayPreview,
    f"{_DAG}/quarantine/replay": quarantine.ReplayDone,
    f"{_DAG}/quarantine/discard": quarantine.DiscardDone,
    f"{_DAG}/ledger": accounts.LedgerAnswer,
    f"{_DAG}/ledger/verification": accounts.Verified,
    f"{_DAG}/ledger/band": accounts.Band,
    f"{_DAG}/gaps": accounts.Gaps,
    f"{_DAG}/audit": accounts.AuditPage,
    f"{_DAG}/quality": accounts.Quality,
    f"{_DAG}/quality/checks": accounts.QualityByRun,
    f"{_DAG}/lag": accounts.LagAnswer,
    f"{_DAG}/mirror/partitions": accounts.Partitions,
    f"{_DAG}/mirror/heartbeat": accounts.HeartbeatAnswer,
    f"{_DAG}/mirror/translate": accounts.Translated,
    "/mirrors": mirrors.MirrorPage,
    f"{_DAG}/mirror": mirrors.MirrorState,
    f"{_DAG}/mirror/offsets": mirrors.OffsetSpans,
    f"{_DAG}/mirror/group": mirrors.GroupTranslated,
    f"{_DAG}/plan": accounts.Planned,
    f"{_DAG}/doctor": accounts.Doctor,
    f"{_DAG}/alerts": accounts.Alerts,
    f"{_DAG}/snapshot": snapshots.SnapshotState,
    f"{_DAG}/snapshot/preview": snapshots.SnapshotPreviewed,
    **{f"{_DAG}/snapshot/{verb}": snapshots.SnapshotDone for verb in ("begin", "pause", "resume", "cancel")},
}
"""Path below the prefix → model of its answer; a path has one method."""

TEXTS = {
    f"{_DAG}/peek": "application/x-ndjson",
    f"{_DAG}/quarantine/held": "application/x-ndjson",
    f"{_DAG}/quarantine/export": "application/x-ndjson",
    f"{_DAG}/audit.csv": "text/csv",
    f"{_DAG}/runs/{{run_id}}/data-docs": "text/html",
}
"""The same of answers that are no JSON → their media type."""


_MODE: Literal["validation"] = "validation"
"""Members that are left out at their default are not required."""


def with_answers(described: dict[str, Any], prefix: str) -> dict[str, Any]:
    """Return a description of the API whose answers have schemas.

    Args:
        described: OpenAPI document, as FastAPI makes it of the routes; it is changed.
        prefix: of all paths.
    """
    models = [(model, _MODE) for model in dict.fromkeys(ANSWERS.values())]
    refs, made = models_json_schema(models, ref_template="#/components/schemas/{model}")
    known = described.setdefault("components", {}).setdefault("schemas", {})
    for name, schema in made.get("$defs", {}).items():
        if known.setdefault(name, schema) != schema:
            raise ValueError(f"two schemas of the API are called {name}")
    for path, methods in described["paths"].items():
        below = path.removeprefix(prefix)
        for operation in methods.values():
            answered = operation["responses"].setdefault("200", {"description": "Successful Response"})
            if below in ANSWERS:
                answered["content"] = {"application/json": {"schema": refs[ANSWERS[below], _MODE]}}
            elif below in TEXTS:
                answered["content"] = {TEXTS[below]: {"schema": {"type": "string"}}}
    return described
