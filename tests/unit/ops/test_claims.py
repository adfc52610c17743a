"""`databus claim` and what `databus segments --prune` does with claims."""

from __future__ import annotations

import os
import time
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from databus.binlog.claims import ClaimStore
from databus.cli.main import app
from databus.core.errors import ClaimError

VALUE = bytes(range(256)) * 100


@pytest.fixture
def reference(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setenv("DATABUS_SEGMENT_STORE", str(tmp_path / "segments"))
    return str(ClaimStore(str(tmp_path / "segments")).put(np.frombuffer(VALUE, np.uint8)))


def test_a_claim_is_fetched_to_a_file_or_the_output(reference: str, tmp_path: Path) -> None:
    target = tmp_path / "value"
    assert CliRunner().invoke(app, ["claim", reference, "--to", str(target)]).exit_code == 0
    assert target.read_bytes() == VALUE
    assert CliRunner().invoke(app, ["claim", "-"], input=reference).stdout_bytes == VALUE


def test_a_damaged_claim_leaves_no_file(reference: str, tmp_path: Path) -> None:
    (claim,) = (path for path in (tmp_path / "segments").rglob("*") if path.is_file())
    claim.write_bytes(VALUE[1:])
    done = CliRunner().invoke(app, ["claim", reference, "--to", str(tmp_path / "value")])
    assert isinstance(done.exception, ClaimError)
    assert [path.name for path in tmp_path.iterdir()] == ["segments"]


@pytest.mark.usefixtures("reference")
def test_pruning_shows_and_deletes_old_claims(tmp_path: Path) -> None:
    (claim,) = (path for path in (tmp_path / "segments").rglob("*") if path.is_file())
    run = ["segments", "--prune", "--keep", "1d"]
    assert "claims" not in CliRunner().invoke(app, run).stdout
    os.utime(claim, (time.time() - 8 * 86_400,) * 2)
    assert "1 claims, 0.0 MB would be deleted" in CliRunner().invoke(app, run).stdout
    assert claim.exists()
    assert "1 claims, 0.0 MB deleted" in CliRunner().invoke(app, [*run, "--execute"]).stdout
    assert not claim.exists()
