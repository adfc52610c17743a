"""Poms, and what Maven says."""

from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

from databus.core.errors import SandboxError
from databus.sandbox import maven, packages
from databus.sandbox.maven import Artifact, Download, render_pom
from databus.sandbox.progress import ProgressEvent

_M = "{http://maven.apache.org/POM/4.0.0}"


def dependencies(pom: str) -> list[dict[str, str]]:
    found = ET.fromstring(pom).iterfind(f"{_M}dependencies/{_M}dependency")
    return [{child.tag.removeprefix(_M): (child.text or "").strip() for child in dependency} for dependency in found]


def test_a_plain_artifact_has_coordinates_only() -> None:
    assert dependencies(render_pom("zk", [Artifact("g", "a", "1")])) == [
        {"groupId": "g", "artifactId": "a", "version": "1"}
    ]


def test_type_classifier_and_exclusions_are_rendered() -> None:
    [dependency] = dependencies(render_pom("x", [Artifact("g", "a", "1", "tar.gz", "all", transitive=False)]))
    assert dependency["type"] == "tar.gz"
    assert dependency["classifier"] == "all"
    assert "exclusions" in dependency


def test_the_recipe_changes_with_a_version() -> None:
    one, two = (Download("s", (Artifact("g", "a", version), Artifact("g", "b", "1")), "3") for version in "12")
    assert one.recipe != two.recipe


def fake_maven(folder: Path, monkeypatch: pytest.MonkeyPatch, script: str) -> None:
    program = folder / "mvn"
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(0o755)
    monkeypatch.setattr(packages, "require", lambda _program: program)
    monkeypatch.setattr(packages, "require_java", lambda: program)


def test_downloads_are_counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    line = "Downloaded from mirror: https://host/maven/g/a/1/a-1.jar (12 kB at 3 kB/s)"
    fake_maven(tmp_path, monkeypatch, f"echo 'noise'; echo '{line}'; echo '{line}'")
    events: list[ProgressEvent] = []
    maven.copy_dependencies(Download("s", (Artifact("g", "a", "1"),), "3"), tmp_path / "out", events.append)
    assert [(event.detail, event.done) for event in events] == [("a-1.jar (12 kB)", 1), ("a-1.jar (12 kB)", 2)]


def test_a_failure_ends_with_mavens_words(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fake_maven(tmp_path, monkeypatch, "echo '[INFO] hello'; echo '[ERROR] no such artifact g:a:1'; exit 1")
    with pytest.raises(SandboxError) as caught:
        maven.copy_dependencies(Download("s", (Artifact("g", "a", "1"),), "3"), tmp_path / "out", lambda _event: None)
    assert caught.value.code == "sandbox_download_failed"
    assert "no such artifact g:a:1" in caught.value.message
    assert "hello" not in caught.value.message
