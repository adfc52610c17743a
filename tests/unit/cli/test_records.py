"""`databus records prune` merges old batches only when told, and says what stays."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest
import sqlalchemy as sa
from typer.testing import CliRunner

from databus.cli.main import app
from databus.core.batches.counts import TableCounts
from databus.core.errors import ConfigError
from databus.records import tables as t
from databus.records.ledger import merged_pages
from databus.records.ledger.pages import LedgerPages
from databus.records.lineage.windows import WindowRun, WindowRuns
from databus.records.recorder import SqlRecorder
from databus.records.store import RecordStore
from tests.contract.many_partitions import FLOW, history


def test_prune_merges_what_is_old(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    url = f"sqlite:///{tmp_path / 'records.db'}"
    monkeypatch.setenv("DATABUS_RECORDS_URL", url)
    entries = history(1_050, 2, 1)
    entries[20] = replace(entries[20], counts={"shop.orders": TableCounts(2, 0, 1, 1)})  # holds a row back
    with SqlRecorder.open(url) as recorder:
        recorder.page(FLOW, entries)

        def pages() -> int:
            return len(LedgerPages(recorder.store).pages(FLOW))

        def prune(*words: str) -> dict[str, int]:
            found = CliRunner().invoke(app, ["records", "prune", "--output", "json", *words])
            assert found.exit_code == 0, found.output
            return {row["table"]: row["rows"] for row in json.loads(found.stdout)}

        assert prune("--keep", "30d", "--execute")["databus_ledger"] == 0
        shown = prune("--keep", "30d", "--merge", "0s")
        assert (shown["databus_ledger"], shown["databus_batches"], pages()) == (47, 47, 1_051)
        assert prune("--keep", "30d", "--merge", "0s", "--execute") == shown
        assert pages() == 1_051 - 47
        told = CliRunner().invoke(app, ["records", "prune", "--keep", "0s"])
        assert "1 batch older than" in told.stderr
        refused = CliRunner().invoke(app, ["records", "prune", "--merge", "5GB"])
        assert refused.exit_code != 0


@pytest.mark.parametrize("at_once", [2_000, 10])
def test_the_rehearsal_lists_what_the_execution_does_over_all_tables(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, at_once: int
) -> None:
    """Runs that moved nothing, runs whose batches become another run's, and what is judged, new or not told yet."""
    url = f"sqlite:///{tmp_path / 'records.db'}"
    monkeypatch.setenv("DATABUS_RECORDS_URL", url)
    monkeypatch.setattr(merged_pages, "_CHUNK", at_once)
    entries = [replace(e, who=f"r{e.batch // 7}") for e in history(1_060, 2, 1)]
    entries[20] = replace(entries[20], counts={"shop.orders": TableCounts(2, 0, 1, 1)})  # stays single, with its run
    now, old = datetime.now(UTC), datetime(2026, 1, 1, tzinfo=UTC)
    judged = {"r1": old, "r3": old, "r5": now, "idle-1": old, "idle-2": old, "idle-new": now}
    same = {"flow": FLOW, "success": True, "evaluated": 0, "violations": 0, "worst": None, "result": {}}

    def counts(store: RecordStore) -> dict[str, int]:
        with store.transaction() as connection:
            each = {name: sa.select(sa.func.count()).select_from(table) for name, table in t.metadata.tables.items()}
            return {name: connection.execute(wanted).scalar_one() for name, wanted in each.items()}

    def prune(*words: str) -> dict[str, int]:
        found = CliRunner().invoke(app, ["records", "prune", "--keep", "1d", "--merge", "0s", "-o", "json", *words])
        assert found.exit_code == 0, found.output
        return {row["table"]: row["rows"] for row in json.loads(found.stdout)}

    with SqlRecorder.open(url) as recorder:
        recorder.page(FLOW, entries)
        with recorder.store.transaction() as connection:
            idle = [{"flow": FLOW, "run_id": run, "run_url": ""} for run in judged if run.startswith("idle")]
            connection.execute(t.runs.insert(), idle)
            results = [{**same, "run_id": run, "evaluated_at": at} for run, at in judged.items()]
            connection.execute(t.quality_results.insert(), results)
        windows, run = WindowRuns(recorder.store), WindowRun(FLOW, "r1", 0, old)
        windows.begin(run)
        windows.end(run, "COMPLETE", old)
        windows.sent(run, "COMPLETE")
        before = counts(recorder.store)
        shown = prune()
        assert counts(recorder.store) == before
        assert prune("--execute") == shown
        after = counts(recorder.store)
        assert shown == {name: before[name] - after[name] for name in shown}
        # Of nine runs with old batches: one keeps its row held back, one is judged still, others end a part.
        assert shown["databus_runs"] > 2
        untold = {name for name in before if before[name] > after[name]} - shown.keys()
        assert untold <= {"databus_table_counts", "databus_receipts", "databus_ranges"}  # of the batches that are told
        assert set(prune().values()) == set(prune("--execute").values()) == {0}


@pytest.mark.parametrize(
    ("words", "option"),
    [(("--keep", "abc"), "--keep='abc'"), (("--keep=-1d",), "--keep='-1d'"), (("--merge", "5GB"), "--merge='5GB'")],
)
def test_a_limit_that_is_no_age_is_named_by_its_option(words: tuple[str, ...], option: str) -> None:
    refused = CliRunner().invoke(app, ["records", "prune", *words])
    assert isinstance(refused.exception, ConfigError)
    assert refused.exception.message == f"{option} is not an age"
    assert "30d" in refused.exception.hint


def test_a_limit_of_segments_is_named_by_its_option() -> None:
    refused = CliRunner().invoke(app, ["segments", "--keep", "abc"])
    assert isinstance(refused.exception, ConfigError)
    assert refused.exception.message.startswith("--keep='abc': 'abc' is neither an age nor a size")
