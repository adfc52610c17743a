from __future__ import annotations

import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest

from tests.suite import changed, child
from tests.suite.changed import Choice, changed_files, main, nearest, of_package, touched, within
from tests.suite.imports import Imports, UnreadableError, imports, module_of, modules, naming
from tests.suite.steady import ROOT

SMALL = {
    "databus.core.a": frozenset[str](),
    "databus.core": frozenset({"databus.core.a"}),
    "databus.b": frozenset({"databus.core"}),
    "databus.c": frozenset({"databus.b"}),
    "tests.unit.test_c": frozenset({"databus.c"}),
    "tests.integration.helper": frozenset({"databus.core"}),
    "tests.integration.test_near": frozenset({"tests.integration.helper"}),
    "tests.integration.test_far": frozenset({"databus.c"}),
    "tests.integration.test_other": frozenset[str](),
}


@cache
def everything() -> Imports:
    """Return what each module of the repository imports."""
    return imports(modules())


def test_unit_tests_are_touched_from_afar_and_server_tests_from_near() -> None:
    assert touched({"databus.core.a"}, SMALL) == {"tests.unit.test_c", "tests.integration.test_near"}
    assert touched({"databus.b"}, SMALL) == {"tests.unit.test_c", "tests.integration.test_far"}  # none is nearer
    assert touched({"databus.c"}, SMALL) == {"tests.unit.test_c", "tests.integration.test_far"}
    assert touched({"tests.integration.test_other"}, SMALL) == {"tests.integration.test_other"}
    assert touched({"tests.integration.helper"}, SMALL) == {"tests.integration.test_near"}
    assert touched(set(), SMALL) == set()


def test_the_tree_is_read_as_it_is() -> None:
    known = everything()
    found = touched({"databus.kafka.callbacks"}, known)
    assert "tests.unit.kafka.test_callbacks" in found
    assert "tests.unit.sinks.test_kafka_session" in found
    assert "databus.core.state.plan" in known["databus.runtime.dispatch"]
    assert "tests.integration.conftest" in known["tests.integration.test_kill"]


def test_what_is_gone_and_what_all_tests_stand_on_count_too() -> None:
    package = "databus.kafka"
    gone = f"{package}.gone"  # the whole name in a string would count
    known = imports(modules(), [gone])
    assert "tests.unit.kafka.test_callbacks" in touched({"tests.suite.groups"}, known)
    assert "tests.unit.kafka.test_callbacks" in touched({"databus.kafka"}, known)
    assert touched({gone}, known) == set()


def test_files_are_named_as_modules_where_they_are_some() -> None:
    assert module_of("include/databus/kafka/__init__.py") == "databus.kafka"
    assert module_of("tests/unit/test_tls.py") == "tests.unit.test_tls"
    assert module_of("include/databus/sandbox/versions.env") == module_of("jobs/micro_batch.py") == ""


def test_the_nearest_and_shortest_are_run_and_the_others_told() -> None:
    known = {"a": frozenset[str](), "far": frozenset({"b"}), "near": frozenset({"a"}), "near_long": frozenset({"a"})}
    seconds = {"a": 90.0, "far": 1.0, "near": 5.0, "near_long": 50.0}
    order = nearest(["far", "near_long", "near", "a"], ["a"], known, seconds)
    assert order == ["a", "near", "near_long", "far"]
    assert within(order, ["a"], seconds, 100) == (["a", "near", "far"], ["near_long"])
    assert within(order, ["a", "near_long"], seconds, 1) == (["a", "near_long"], ["near", "far"])
    assert within(order, [], seconds, 1) == (["a"], ["near", "near_long", "far"])
    assert within([], [], seconds, 1) == ([], [])


def test_modules_that_are_loaded_by_name_are_touched() -> None:
    known = everything()
    assert "tests.airflow.test_preload" in touched({"databus.airflow.preload"}, known)  # in another process' code
    assert "tests.integration.test_cli" in touched({"databus.cli.diagnostics"}, known)  # f"databus.cli.{place}"
    assert "databus.records.migrations.versions.v0004_ranges" in known["databus.records.schema"]  # by its path
    assert "databus.checks.in_range" in known["databus.registry"]  # "databus.checks.in_range:InRange"
    assert "databus.core.state.plan" not in known["databus.core.positions.lag"]


def test_every_module_of_the_product_has_tests_to_run() -> None:
    known = everything()
    product = [name for name in known if name.startswith("databus.")]
    assert len(product) > 600
    reached, edge = set[str](), {name for name in known if changed._is_test(name)}
    while edge:
        reached |= edge
        edge = {imported for name in edge for imported in known[name]} - reached
    assert [name for name in product if name not in reached and not of_package(name, known)] == []
    for name in product[::25]:  # of all it takes ten times as long
        assert bool(touched({name}, known)) == (name in reached)


@pytest.mark.parametrize(
    ("file", "test"),
    [
        ("dags/orders_to_kafka.py", "tests.dags.test_dag_files"),
        ("jobs/micro_batch.py", "tests.integration.test_path"),
        ("requirements.txt", "tests.unit.test_docker"),
        ("docker/compose.yaml", "tests.unit.test_docker"),
        ("ui/src/main.tsx", "tests.unit.web.test_bundle"),
        ("include/databus/sandbox/versions.env", "tests.unit.sandbox.test_versions"),
        ("tests/contract/records_v1_sqlite.sql", "tests.unit.records.test_schema"),
        ("tests/fixtures/state_021bfd3/segments/kept_binlog/of_one/index.json", "tests.unit.test_state_of_021bfd3"),
        ("tests/unit/binlog/recorded/mysql.events", "tests.unit.binlog.test_taken_back"),
    ],
)
def test_files_that_are_no_modules_count_for_what_names_them_or_their_folder(file: str, test: str) -> None:
    paths = modules()
    assert test in touched(naming(file, paths), everything())
    assert len(naming(file, paths)) < 20


def test_what_no_test_knows_is_told_and_what_is_left_out_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    choice = Choice(
        ["LICENSE", "include/databus/bench/decoding/one_encoder.py", "include/databus/core/positions/lag.py"], 0
    )
    choice.tell(every=False)
    told = capsys.readouterr().out
    assert "no test is known for: LICENSE\n" in told
    assert "the nearest package's are run: include/databus/bench/decoding/one_encoder.py\n" in told
    assert f"left out: {len(choice.left)} files farther away" in told
    known = everything()
    farther = {
        name
        for name in changed.importing({"databus.core.positions.lag"}, known)
        if name.startswith("tests.integration.")
    }
    assert farther
    assert farther <= {*choice.left, *choice.fit}


def repository(folder: Path, *files: str) -> None:
    """Make a repository of one commit, with these files."""
    for file in files:
        (folder / file).parent.mkdir(parents=True, exist_ok=True)
        (folder / file).write_text(file * 20)
    git(folder, "init", "-q")
    git(folder, "add", "-A")
    git(folder, "commit", "-qm", "one")


def git(folder: Path, *arguments: str) -> None:
    told = ["git", "-c", "user.name=n", "-c", "user.email=e", *arguments]
    subprocess.run(told, cwd=folder, check=True, capture_output=True)


def test_both_names_of_what_was_moved_count_and_names_come_as_they_are(tmp_path: Path) -> None:
    repository(tmp_path, "a.py", "same.py", "größe.py")
    git(tmp_path, "mv", "a.py", "b.py")
    (tmp_path / "größe.py").write_text("")
    (tmp_path / "new ü.py").write_text("")
    assert sorted(changed_files(None, tmp_path)) == ["a.py", "b.py", "größe.py", "new ü.py"]


def test_what_cannot_be_known_is_an_error_that_says_what(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(UnreadableError, match="not a git repository"):
        changed_files("HEAD", tmp_path)
    repository(tmp_path, "a")
    with pytest.raises(UnreadableError, match=r"nothing_of_that_name.*SINCE is a commit"):
        changed_files("nothing_of_that_name", tmp_path)
    (tmp_path / "broken.py").write_text("def it(:\n")
    with pytest.raises(UnreadableError, match=r"broken\.py:1: .*: mend it first"):
        imports({"tests.broken": tmp_path / "broken.py"})
    monkeypatch.setenv("PATH", "/nowhere")
    assert main([]) == 2
    assert capsys.readouterr().err == "git: no such program: it tells what changed\n"


class Asked:
    """Notes what pytest is run with, and ends as it is told."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, files: list[str], code: int) -> None:
        self.commands: list[list[str]] = []
        self._code = code
        monkeypatch.setattr(child, "run", self)
        monkeypatch.setattr(changed, "changed_files", lambda since: files)

    def __call__(self, command: list[str], cwd: Path) -> int:
        assert cwd == ROOT
        assert command[:3] == [sys.executable, "-m", "pytest"]
        self.commands.append(command[3:])
        return self._code


def test_a_changed_test_of_the_full_tier_is_run(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = Asked(monkeypatch, ["tests/e2e/test_wake.py", "tests/unit/test_mirror.py"], 0)
    assert main(["-x"]) == 0
    assert asked.commands == [["-m", "not full", "tests/unit/test_mirror.py", "-x"], ["tests/e2e/test_wake.py", "-x"]]


@pytest.mark.parametrize(("files", "code"), [([], 0), (["LICENSE"], 0), (["tests/unit/test_tls.py"], 5)])
def test_where_no_test_ran_it_is_not_well(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], files: list[str], code: int
) -> None:
    Asked(monkeypatch, files, code)
    assert main([]) == 5
    assert "no test was run" in capsys.readouterr().out
