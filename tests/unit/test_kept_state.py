"""Kept values of each version: all are read by this one, and a form is not stored before a fixture has it."""

from __future__ import annotations

import json
import sqlite3
from collections import defaultdict
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from databus import __version__
from databus.binlog.segments.kept_segments import KeptSegment
from databus.checkpoints.codec import encode
from databus.checkpoints.nodes.large_values import reference
from databus.core.errors import CheckpointFormatError, RecordingError
from databus.core.stored_form import VERSION, Form
from databus.records.database import VERSION_TABLE
from databus.records.quarantine.rows import HeldRows, Selection
from databus.records.store import RecordStore
from tests.state_fixtures import KEPT
from tests.state_fixtures.samples import KINDS, rewritten, samples
from tests.unit.core.test_stored_form import FORMS


def _of_all(read: Callable[[str, Any], Any]) -> None:
    for file in KEPT.glob("*/forms.json"):
        for kind, values in json.loads(file.read_text(encoding="utf-8")).items():
            for value in values:
                read(kind, value)


def test_each_kept_value_is_read_and_written_again() -> None:
    def same(kind: str, value: Any) -> None:
        assert rewritten(kind, value) == value, kind

    _of_all(same)


def test_this_version_has_a_fixture_and_writes_what_it_holds() -> None:
    folder = KEPT / __version__
    kept = json.loads((folder / "forms.json").read_text(encoding="utf-8"))
    todo = "`python -m tests.state_fixtures` writes it; what a released version wrote never changes"
    assert kept == samples(), f"{folder / 'forms.json'} holds other values than are stored today: {todo}"


def test_no_stored_form_is_without_a_fixture(monkeypatch: pytest.MonkeyPatch) -> None:
    fields, versions = defaultdict[str, set[str]](set), defaultdict[str, int](int)
    read, write = Form.read, Form.write

    def note(form: Form, data: Mapping[str, Any]) -> None:
        fields[form.name] |= data.keys()
        versions[form.name] = max(versions[form.name], data.get(VERSION, 1))

    def reading(form: Form, data: Mapping[str, Any]) -> dict[str, Any]:
        note(form, data)
        return read(form, data)

    def writing(form: Form, values: Mapping[str, Any], at_least: int = 1) -> dict[str, Any]:
        note(form, written := write(form, values, at_least))
        return written

    monkeypatch.setattr(Form, "read", reading)
    monkeypatch.setattr(Form, "write", writing)
    _of_all(rewritten)
    todo = "give tests/state_fixtures/samples.py a value that has it, and run `python -m tests.state_fixtures`"
    for form in FORMS:
        lacking = form._since.keys() - fields[form.name]
        assert not lacking, f"no fixture has {', '.join(sorted(lacking))} of the stored {form.name}: {todo}"
        assert versions[form.name] == form.latest, f"no fixture has version {form.latest} of the {form.name}: {todo}"


@pytest.mark.parametrize("kind", sorted(KINDS.keys() - {"marker", "kept segment", "checkpoint and its outputs"}))
def test_what_a_newer_version_stored_is_refused_with_the_way_out(kind: str) -> None:
    for value in samples()[kind]:
        for newer in ({**value, VERSION: 99}, {**value, "tomorrow": 1}):
            with pytest.raises(CheckpointFormatError) as refused:
                rewritten(kind, newer)
            assert "upgrade databus on every worker" in refused.value.hint


@pytest.mark.parametrize("more", [{VERSION: 2}, {"tomorrow": 1}], ids=["version", "field"])
def test_a_newer_reference_to_a_large_value_is_not_taken_for_one(more: dict[str, int]) -> None:
    (stored,) = samples()["reference to a large value"]
    assert reference(encode(stored)) == "ab-cd"
    with pytest.raises(CheckpointFormatError, match="reference to a large value") as refused:
        reference(encode({**stored, **more}))
    assert "upgrade databus on every worker" in refused.value.hint


def test_a_newer_kept_segment_is_named_and_not_used(caplog: pytest.LogCaptureFixture) -> None:
    (stored,) = samples()["kept segment"]
    assert KeptSegment.from_json({**stored, VERSION: 2}) is None
    assert "kept segment has format version 2" in caplog.text


def test_records_of_a_newer_version_are_refused_with_the_way_out(tmp_path: Path) -> None:
    database = sqlite3.connect(tmp_path / "records.db")
    database.executescript((KEPT.parent / "state_021bfd3" / "records.sql").read_text(encoding="utf-8"))
    database.execute(f"UPDATE {VERSION_TABLE} SET version_num = '9999'")
    database.commit()
    database.close()
    with RecordStore(f"sqlite:///{tmp_path / 'records.db'}") as store, pytest.raises(RecordingError) as refused:
        HeldRows(store, "kept_written").select(Selection())
    assert refused.value.code == "recording_schema_version"
    assert "A newer databus has migrated it" in refused.value.hint
