"""Files of the forge: workflows, hooks and forms name commands that exist, and actions stand at one commit."""

from __future__ import annotations

import re
import shlex
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml
from packaging.specifiers import SpecifierSet

from tests.suite.steady import ROOT
from tests.unit.suite.test_documents import broken_links

FORGE = ROOT / ".github"
WORKFLOWS = sorted((FORGE / "workflows").glob("*.yml"))
PAGES = sorted(FORGE.glob("*.md"))
TARGETS = set(re.findall(r"^([a-z0-9-]+):(?!=)", (ROOT / "Makefile").read_text(), re.MULTILINE))


def _read(file: Path) -> Any:
    return yaml.safe_load(file.read_text(encoding="utf-8"))


def _jobs(file: Path) -> list[dict[str, Any]]:
    return list(_read(file)["jobs"].values())


def _commands(job: dict[str, Any]) -> list[str]:
    """Return what the steps run, one of a matrix for each of its values."""
    chosen = job.get("strategy", {}).get("matrix", {}).get("command", [])
    found: list[str] = []
    for step in job["steps"]:
        run = step.get("run", "")
        found += chosen if run == "${{ matrix.command }}" else [run] if run else []
    return found


def test_pages_are_where_a_forge_looks() -> None:
    named = {page.name for page in PAGES}
    assert named == {"CONTRIBUTING.md", "SECURITY.md", "CODE_OF_CONDUCT.md", "pull_request_template.md"}
    assert {file.name for file in WORKFLOWS} == {"fast.yml", "full.yml", "versions.yml"}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_of_its_pages_resolve(page: Path) -> None:
    assert list(broken_links(page)) == []


@pytest.mark.parametrize("file", WORKFLOWS, ids=lambda file: file.stem)
def test_actions_stand_at_a_commit_and_jobs_are_bounded(file: Path) -> None:
    used = [step["uses"] for job in _jobs(file) for step in job["steps"] if "uses" in step]
    assert used
    for action in used:
        assert re.fullmatch(r"[\w-]+/[\w-]+@[0-9a-f]{40}", action), action
    assert _read(file)["permissions"] == {"contents": "read"}
    assert all(0 < job["timeout-minutes"] <= 90 for job in _jobs(file))
    assert all(step["with"]["persist-credentials"] is False for job in _jobs(file) for step in job["steps"]
               if step.get("uses", "").startswith("actions/checkout@"))  # fmt: skip


@pytest.mark.parametrize("file", WORKFLOWS, ids=lambda file: file.stem)
def test_commands_exist(file: Path) -> None:
    commands = [command for job in _jobs(file) for command in _commands(job)]
    assert commands
    for command in commands:
        program, *arguments = shlex.split(command)
        if program == "make":
            assert arguments[0] in TARGETS, command
        elif program.startswith("."):
            assert (ROOT / program).stat().st_mode & 0o111, command
        else:
            assert program == "apt-get", command


def test_the_fast_job_lints_and_runs_what_needs_no_servers() -> None:
    (job,) = _jobs(FORGE / "workflows" / "fast.yml")
    assert [shlex.split(command)[1] for command in _commands(job)] == ["setup", "lint", "test-unit"]
    assert job["timeout-minutes"] <= 10


def test_the_full_job_is_what_decides_here() -> None:
    (job,) = _jobs(FORGE / "workflows" / "full.yml")
    assert _commands(job)[-1] == ".ci/run"


def test_versions_that_no_other_job_runs_have_a_job_each() -> None:
    (job,) = _jobs(FORGE / "workflows" / "versions.yml")
    words = [shlex.split(command) for command in _commands(job)]
    made = [tuple(each[1:]) for each in words if each[0] == "make"]
    asked = SpecifierSet(tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["requires-python"])
    pythons = [f"3.{minor}" for minor in range(20) if asked.contains(f"3.{minor}.1")]
    assert {target for target, *_ in made} == {"test-lowest", "test-python", "test-full", "coverage"}
    others = [given[0] for target, *given in made if target == "test-python"]
    assert others == [f"VERSION={each}" for each in pythons[1:]]
    (files,) = (given[0].removeprefix("ARGS=") for target, *given in made if target == "test-full")
    assert (ROOT / files).is_file()


def test_hooks_are_what_lint_runs() -> None:
    (repository,) = _read(ROOT / ".pre-commit-config.yaml")["repos"]
    assert repository["repo"] == "local"
    makefile = (ROOT / "Makefile").read_text()
    lint = makefile[makefile.index("\nlint:") : makefile.index("\nformat:")]
    for hook in repository["hooks"]:
        program, command = re.fullmatch(r"\.venv/(bin/\S+)((?: (?:check|format))?).*", hook["entry"]).groups()
        assert f"$(BIN)/{Path(program).name}{command}" in lint, hook["entry"]


@pytest.mark.parametrize("form", ["bug.yml", "wish.yml"])
def test_forms_ask_in_fields_of_their_own(form: str) -> None:
    fields = _read(FORGE / "ISSUE_TEMPLATE" / form)["body"]
    assert len({field["id"] for field in fields}) == len(fields) >= 2
    assert any(field.get("validations", {}).get("required") for field in fields)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_commands_of_its_pages_exist(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    for target in re.findall(r"(?:^|`)make ([a-z-]+)", text, re.MULTILINE):
        assert target in TARGETS, target
