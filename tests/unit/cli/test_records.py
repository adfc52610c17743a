"""`databus records prune` merges old batches only when told, and says what stays."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from typer.testing import CliRunner

from databus.cli.main import app
from databus.core.counts import TableCounts
from databus.core.errors import ConfigError
from databus.records.ledger_pages import LedgerPages
from databus.records.recorder import SqlRecorder
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
        assert prune("--keep", "30d", "--merge", "0s", "--execute") == {**shown, "databus_runs": 0}
        assert pages() == 1_051 - 47
        told = CliRunner().invoke(app, ["records", "prune", "--keep", "0s"])
        assert "1 batches older than" in told.stderr
        refused = CliRunner().invoke(app, ["records", "prune", "--merge", "5GB"])
        assert refused.exit_code != 0


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
