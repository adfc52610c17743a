"""The tables of databus 0.1 as it made them, before there were migrations."""

from __future__ import annotations

from pathlib import Path


def statements(dialect: str) -> list[str]:
    """The statements that made them, for "sqlite" or "postgresql"."""
    text = Path(__file__).with_name(f"records_v1_{dialect}.sql").read_text(encoding="utf-8")
    return [statement for statement in text.split(";\n") if statement.strip()]


def insert_batch() -> list[str]:
    """The statements that put one batch of flow `orders`, run `run-1`, in."""
    offset = '{"kind": "sequence", "sequence": %d}'
    run = "INSERT INTO databus_runs (id, flow, run_id, run_url) VALUES (1, 'orders', 'run-1', '')"
    batch = (
        "INSERT INTO databus_batches (id, run, flow, batch, plan_hash, spec_hash, mode, epoch, attempt, range_start, "
        "range_end, rows, bytes, durations_ms, committed_at) VALUES (1, 1, 'orders', 7, 'h', 's', 'live', 1, 1, "
        f"'{offset % 1}', '{offset % 2}', 5, 10, '{{}}', '2026-01-01 00:00:00')"
    )
    return [run, batch]
