"""`databus large-value`, and large values under `databus segments prune`."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from databus.binlog.segments.large_values import LargeValueStore
from databus.cli.main import app
from databus.core.errors import ClaimError

VALUE = bytes(range(256)) * 100


@pytest.fixture
def reference(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setenv("DATABUS_SEGMENT_STORE", str(tmp_path / "segments"))
    return str(LargeValueStore(str(tmp_path / "segments")).put(np.frombuffer(VALUE, np.uint8)))


def test_a_value_is_fetched_to_a_file_or_the_output(reference: str, tmp_path: Path) -> None:
    target = tmp_path / "value"
    assert CliRunner().invoke(app, ["large-value", reference, "--to", str(target)]).exit_code == 0
    assert target.read_bytes() == VALUE
    assert CliRunner().invoke(app, ["large-value", "-"], input=reference).stdout_bytes == VALUE


@pytest.mark.parametrize(
    "written",
    ["{outside}", "file://{outside}", "{inside}/../../../{name}", "{inside}/{name}", "http://127.0.0.1:1/{name}",
     "ssh://root@127.0.0.1:1/{name}", "memory://.claims/{two}/{name}"],
)  # fmt: skip
def test_only_what_lies_in_the_store_is_opened(reference: str, tmp_path: Path, written: str) -> None:
    name = str(json.loads(reference)["sha256"])
    (tmp_path / name).write_bytes(VALUE)  # even of the right bytes
    (tmp_path / "segments" / name).write_bytes(VALUE)
    place = written.format(outside=tmp_path / name, inside=tmp_path / "segments", name=name, two=name[:2])
    for given in (place, json.dumps({"claim": place, "sha256": name})):
        done = CliRunner().invoke(app, ["large-value", given, "--to", str(tmp_path / "value")])
        assert isinstance(done.exception, ClaimError)
        assert done.exception.code == "claim_elsewhere"
        assert not (tmp_path / "value").exists()


def test_a_value_is_named_by_its_path_too(reference: str, tmp_path: Path) -> None:
    path = str(json.loads(reference)["claim"]).removeprefix("file://")
    assert CliRunner().invoke(app, ["large-value", path]).stdout_bytes == VALUE


def test_a_damaged_value_leaves_no_file(reference: str, tmp_path: Path) -> None:
    (value,) = (path for path in (tmp_path / "segments").rglob("*") if path.is_file())
    value.write_bytes(VALUE[1:])
    done = CliRunner().invoke(app, ["large-value", reference, "--to", str(tmp_path / "value")])
    assert isinstance(done.exception, ClaimError)
    assert [path.name for path in tmp_path.iterdir()] == ["segments"]


@pytest.mark.usefixtures("reference")
def test_pruning_shows_and_deletes_old_values(tmp_path: Path) -> None:
    (value,) = (path for path in (tmp_path / "segments").rglob("*") if path.is_file())
    run = ["segments", "prune", "--keep", "1d"]
    assert "large value" not in CliRunner().invoke(app, run).stdout
    os.utime(value, (time.time() - 8 * 86_400,) * 2)
    assert "1 large value, 0.0 MB would be deleted" in CliRunner().invoke(app, run).stdout
    assert value.exists()
    assert "1 large value, 0.0 MB deleted" in CliRunner().invoke(app, [*run, "--execute"]).stdout
    assert not value.exists()
