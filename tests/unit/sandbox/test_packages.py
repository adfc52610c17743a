"""Programs of the operating system."""

import os
from pathlib import Path

import pytest

from databus.core.errors import SandboxError
from databus.sandbox import packages
from databus.sandbox.packages import Program, java_major, require


@pytest.mark.parametrize(
    ("text", "major"),
    [
        ('openjdk version "17.0.15" 2025-04-15', 17),
        ('openjdk version "21" 2023-09-19', 21),
        ('java version "1.8.0_392"', 8),
        ("command not found", None),
    ],
)
def test_java_major(text: str, major: int | None) -> None:
    assert java_major(text) == major


def test_a_program_in_path_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = tmp_path / "databus-test-program"
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert require(Program(program.name, "no-package")) == program


def test_a_missing_program_is_named_with_its_command(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    with pytest.raises(SandboxError) as caught:
        require(Program("databus-no-such-program", "some-package"))
    assert caught.value.code == "sandbox_program_missing"
    assert "databus-no-such-program" in caught.value.message
    assert "apt-get install -y --no-install-recommends some-package" in caught.value.hint


def test_an_old_java_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    java = tmp_path / "java"
    java.write_text("#!/bin/sh\necho 'openjdk version \"11.0.2\"' >&2\n")
    java.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    with pytest.raises(SandboxError, match="Java 11"):
        packages.require_java()


def test_packages_may_not_start_services(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    policy = tmp_path / "policy-rc.d"
    monkeypatch.setattr(packages, "_POLICY", policy)
    with packages._no_services():
        assert os.access(policy, os.X_OK)
        assert "exit 101" in policy.read_text()
    assert not policy.exists()


def test_a_policy_of_the_machine_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    policy = tmp_path / "policy-rc.d"
    policy.write_text("#!/bin/sh\nexit 0\n")
    monkeypatch.setattr(packages, "_POLICY", policy)
    with packages._no_services():
        pass
    assert policy.read_text() == "#!/bin/sh\nexit 0\n"


def test_a_library_is_found_by_its_soname() -> None:
    found = packages.Library("libc.so.6", "libc6").find()
    assert found is not None
    assert found.exists()
    assert packages.Library("libdatabus-is-not-there.so.1", "none").find() is None
