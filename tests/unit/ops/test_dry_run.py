"""Dry run as it is told: rows of a snapshot are named beside what was counted."""

from __future__ import annotations

from databus.ops.runs.dry_run import DryRun


def test_rows_of_tables_that_would_come_are_told() -> None:
    told = DryRun("f", None, {}, {}, (), "its first run begins with the rows that its tables hold").to_json()
    assert told["snapshot"] == "its first run begins with the rows that its tables hold"
    assert told["note"] == "rows of the snapshot are not counted"


def test_a_flow_without_a_snapshot_says_nothing_of_one() -> None:
    assert not {"snapshot", "note"} & DryRun("f", None, {}, {}, ()).to_json().keys()
