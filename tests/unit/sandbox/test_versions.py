"""The versions file and its parser."""

import re
from pathlib import Path

import pytest

from databus.core.errors import SandboxError
from databus.sandbox.versions import VERSIONS_FILE, load_versions, parse_versions


def test_comments_and_blank_lines_are_left_out() -> None:
    assert parse_versions("# why\n\nA_VERSION=1.2.3\n  \nB=x=y\n") == {"A_VERSION": "1.2.3", "B": "x=y"}


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("A=1\nnonsense\n", "f.env:2"),
        ("A=\n", "f.env:1"),
        ("A = 1\n", "f.env:1"),
        ("A=1\nB=2\nA=3\n", "f.env:3"),
    ],
)
def test_a_bad_line_is_named(text: str, place: str) -> None:
    with pytest.raises(SandboxError, match=place):
        parse_versions(text, "f.env")


def test_an_unknown_key_is_refused_with_the_known_ones() -> None:
    with pytest.raises(SandboxError) as caught:
        load_versions()["NO_SUCH_VERSION"]
    assert "KAFKA_VERSION" in caught.value.hint


def test_docker_reads_the_same_file() -> None:
    project = Path(__file__).resolve().parents[3]
    assert f"--env-file {VERSIONS_FILE.relative_to(project)}" in (project / "Makefile").read_text()
    assert not (project / "docker" / ".env").exists()


def test_python_packages_match_the_pins() -> None:
    project = Path(__file__).resolve().parents[3]
    text = (project / "requirements.in").read_text()
    pins = dict(re.findall(r"^([\w-]+)(?:\[[\w,-]+\])?==(\S+)", text, re.MULTILINE))
    versions = load_versions()
    assert pins["pyspark"] == pins["pyspark-client"] == versions["SPARK_VERSION"]
    assert pins["apache-airflow"] == versions["AIRFLOW_VERSION"]
