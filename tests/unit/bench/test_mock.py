"""The bench of the mock source moves all rows through the whole path, without a server."""

from __future__ import annotations

import json

import pytest

from databus import Mock
from databus.bench import mock
from databus.core.errors.batch import ReconciliationError


def test_all_rows_pass_plan_dispatch_commit_and_record() -> None:
    found = mock.moved(Mock(rows=2_000, rows_per_transaction=10), 500)
    assert (found["rows"], found["batches"]) == (2_000, 4)
    assert found["stages_ms"].keys() >= {"plan", "dispatch", "commit", "record"}


def test_rows_that_no_receipt_names_fail_it() -> None:
    source = Mock(rows=100, statements=((50, "ALTER TABLE shop.orders DROP weight"),))
    with pytest.raises(ReconciliationError, match="100 rows were made, and receipts say 101"):
        mock.moved(source, 500)


def test_the_command_prints_a_line_for_each_round(capsys: pytest.CaptureFixture[str]) -> None:
    assert mock.main(["--rows", "1000", "--batch-rows", "500", "--rounds", "2", "--shape", "key"]) == 0
    *rounds, machine = (json.loads(line) for line in capsys.readouterr().out.splitlines())
    assert [found["rows"] for found in rounds] == [1000, 1000]
    assert machine["bar_rows_per_cpu_second"] == mock.BAR
