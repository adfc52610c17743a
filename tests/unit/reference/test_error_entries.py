"""Every error code that the code raises or reports has an entry, and no entry is of a code that is gone."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from typer.testing import CliRunner

from databus.cli import main
from databus.cli.main import app
from databus.core.errors import ConfigError
from databus.core.errors.entries import (
    all_entries,
    checkpoint,
    consumer,
    definition,
    environment,
    nearest,
    sink,
    source,
    stream,
    told_with_more,
)
from tests.reference.errors_page import entry_text
from tests.reference.raised import codes, exits_of, is_retried, of_doctor_alone

WIDTH = {"COLUMNS": "80", "TERM": "dumb", "NO_COLOR": "1"}


def test_entries_are_those_of_the_codes_that_are_raised() -> None:
    raised, known = set(codes()), set(all_entries())
    assert raised - known == set(), "give each an entry in core/errors/entries"
    assert known - raised == set(), "no code raises these any more"
    assert len(known) > 150


def test_no_code_has_two_entries() -> None:
    parts = (source, sink, checkpoint, definition, environment, consumer, stream)
    assert sum(len(part.ENTRIES) for part in parts) == len(all_entries())


def test_exit_codes_and_retries_are_those_of_the_classes_that_bear_the_code() -> None:
    entries = all_entries()
    assert {code: (entry.exits, entry.retried) for code, entry in entries.items()} == {
        code: (exits_of(code), is_retried(code)) for code in entries
    }


def test_codes_that_doctor_alone_finds_have_its_exit_code() -> None:
    assert {code: exits_of(code) for code in codes() if of_doctor_alone(code)} == {
        "connection_type": (1,),
        "environment_java": (),
        "environment_package": (1,),
        "environment_version": (1,),
        "private_data_wider": (),
    }
    assert "by `doctor`: `ops/health/doctor.py`" in entry_text("environment_package")


def test_cause_and_way_out_are_sentences_of_their_own() -> None:
    for code, entry in all_entries().items():
        for text in (entry.cause, entry.way_out):
            assert re.match(r"[A-Z`]", text), code
            assert text.endswith("."), code
            assert len(text) <= 200, code


def test_explain_prints_an_entry_in_80_columns() -> None:
    shown = CliRunner().invoke(app, ["explain", "sink_setting"], env=WIDTH)
    assert shown.exit_code == 0
    assert max(map(len, shown.stdout.splitlines())) <= 80
    said = " ".join(shown.stdout.split())
    assert "docs/reference/errors.md#sink_setting" in said
    assert "2 (wrong option, file or definition)" in said
    found = json.loads(CliRunner().invoke(app, ["explain", "sink_setting", "-o", "json"]).stdout)
    assert found["exit_codes"] == list(all_entries()["sink_setting"].exits)
    assert found["way_out"] == all_entries()["sink_setting"].way_out


def test_a_page_is_named_where_it_is(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)  # where no documents are
    monkeypatch.delenv("DATABUS_DOCS_URL", raising=False)
    assert "page" not in CliRunner().invoke(app, ["explain", "sink_setting"], env=WIDTH).stdout
    assert json.loads(CliRunner().invoke(app, ["explain", "sink_setting", "-o", "json"]).stdout)["page"] is None
    assert told_with_more(ConfigError("bad")).endswith("\nmore: databus explain config_invalid")
    monkeypatch.setenv("DATABUS_DOCS_URL", "https://docs.example.com/databus/")
    said = " ".join(CliRunner().invoke(app, ["explain", "sink_setting"], env=WIDTH).stdout.split())
    assert said.endswith("page https://docs.example.com/databus/reference/errors.md#sink_setting")


def test_explain_without_a_code_lists_all() -> None:
    found = json.loads(CliRunner().invoke(app, ["explain", "-o", "json"]).stdout)
    assert [entry["code"] for entry in found] == list(all_entries())
    shown = CliRunner().invoke(app, ["explain"], env=WIDTH).stdout
    assert all(re.search(rf"^{code} ", shown, re.MULTILINE) for code in all_entries())


@pytest.mark.parametrize(
    ("asked", "near"),
    [("sink_setings", "sink_setting"), ("Sink-Setting", "sink_setting"), ("hanging", "sink_transaction_hanging")],
)
def test_an_unknown_code_names_the_nearest(asked: str, near: str) -> None:
    assert nearest(asked)[0] == near
    refused = CliRunner().invoke(app, ["explain", asked])
    assert isinstance(refused.exception, ConfigError)
    assert refused.exception.code == "error_unknown"
    assert f"Spelled alike: {near}" in refused.exception.hint


def test_an_error_of_the_command_leads_to_its_entry(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.argv", ["databus", "explain", "qqqq"])
    with pytest.raises(SystemExit) as ended:
        main.main()
    assert ended.value.code == 2
    told = capsys.readouterr().err
    assert told.endswith("  (error_unknown)\n  more: databus explain error_unknown\n")
    assert "Spelled alike" not in told


def test_doctor_names_the_codes_of_what_it_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")  # no java
    found = CliRunner().invoke(app, ["doctor"], env=WIDTH)
    assert found.stderr.splitlines()[-1].startswith("more: databus explain ")
    assert "environment_java" in found.stderr
    order = ("ok", "warn", "error")
    levels = [line.split()[0] for line in found.stdout.splitlines() if line.startswith(order)]
    assert levels == sorted(levels, key=order.index)
    assert set(levels) > {"ok"}


def test_an_error_in_a_log_leads_to_its_entry_and_page() -> None:
    told = told_with_more(ConfigError("bad", hint="Mend it."))
    more = "more: databus explain config_invalid (docs/reference/errors.md#config_invalid)"
    assert told == f"[config_invalid] bad Hint: Mend it.\n{more}"
    assert told_with_more(ConfigError("bad", code="of_another_package")) == "[of_another_package] bad"
