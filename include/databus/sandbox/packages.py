"""Programs of the system that the servers need: found, installed where possible, else named with the command."""

from __future__ import annotations

import glob
import os
import re
import shutil
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from databus.core.errors.config import SandboxError
from databus.sandbox.cache import file_lock

_POLICY = Path("/usr/sbin/policy-rc.d")
_APT_LOCK = Path("/run/lock/databus-apt.lock")
_install_lock = threading.Lock()
MINIMUM_JAVA = 17


@dataclass(frozen=True)
class Program:
    """A program, and the Debian package that brings it; a folder may be a pattern, whose last match in order wins."""

    name: str
    package: str
    folders: tuple[str, ...] = ("/usr/sbin", "/usr/local/sbin", "/sbin")

    def find(self) -> Path | None:
        """Find a program's path in `PATH` and in the system folders that a user's `PATH` often lacks."""
        folders = [match for folder in self.folders for match in sorted(glob.glob(folder), reverse=True)]  # noqa: PTH207
        path = os.pathsep.join([os.environ.get("PATH", os.defpath), *folders])
        found = shutil.which(self.name, path=path)
        return Path(found) if found else None


@dataclass(frozen=True)
class Library:
    """A shared library that a downloaded program links to, and the Debian package that brings it."""

    name: str
    package: str

    def find(self) -> Path | None:
        """Find a library's path in the dynamic linker's cache; a program does not find those outside of it either."""
        ldconfig = shutil.which("ldconfig", path=os.pathsep.join([os.defpath, "/usr/sbin", "/sbin"]))
        if ldconfig is None:
            return None
        listed = subprocess.run([ldconfig, "-p"], capture_output=True, text=True, check=False).stdout
        match = re.search(rf"^\s*{re.escape(self.name)} .*=> (?P<path>\S+)$", listed, re.MULTILINE)
        return Path(match["path"]) if match else None


JAVA = Program("java", "openjdk-17-jdk-headless")
JAVAC = Program("javac", "openjdk-17-jdk-headless")
MAVEN = Program("mvn", "maven")
MARIADBD = Program("mariadbd", "mariadb-server")
MARIADB_INSTALL_DB = Program("mariadb-install-db", "mariadb-server")
POSTGRES = Program("postgres", "postgresql", ("/usr/lib/postgresql/*/bin",))
REDIS = Program("redis-server", "redis-server")
LIBAIO = Library("libaio.so.1", "libaio1")
LIBNUMA = Library("libnuma.so.1", "libnuma1")


def require(program: Program | Library) -> Path:
    """The path of a program or library, installed with apt-get when it is missing and this is root on Debian or Ubuntu.

    Raises:
        SandboxError: it is missing and cannot be installed here; the hint holds the command that does.
    """
    if (found := program.find()) is not None:
        return found
    command = f"sudo apt-get update && sudo apt-get install -y --no-install-recommends {program.package}"
    if os.geteuid() != 0 or shutil.which("apt-get") is None:
        raise SandboxError(
            f"{program.name} is not installed", hint=f"Install it: {command}", code="sandbox_program_missing"
        )
    with _install_lock:
        if (found := program.find()) is not None:
            return found
        _apt_install(program.package, command)
    if (found := program.find()) is None:
        raise SandboxError(
            f"package {program.package} was installed, but {program.name} is not found",
            hint=f"Look for it with: dpkg -L {program.package}",
            code="sandbox_program_missing",
        )
    return found


def require_java() -> Path:
    """The path of a `java` that is new enough.

    Raises:
        SandboxError: no Java, or one older than 17.
    """
    java = require(JAVA)
    shown = subprocess.run([java, "-version"], capture_output=True, text=True, check=False)
    major = java_major(shown.stderr + shown.stdout)
    if major is None or major < MINIMUM_JAVA:
        raise SandboxError(
            f"{java} is Java {major or 'of an unknown version'}; the servers need {MINIMUM_JAVA} or newer",
            hint=f"Install it: sudo apt-get install -y --no-install-recommends {JAVA.package}; put it first in PATH.",
            code="sandbox_java_too_old",
        )
    return java


def java_major(text: str) -> int | None:
    """Major version in the output of `java -version` (`1.8.0_392` is 8); None when there is none."""
    match = re.search(r'version "(\d+)(?:\.(\d+))?', text)
    if match is None:
        return None
    first, second = int(match.group(1)), match.group(2)
    return int(second) if first == 1 and second else first


def _apt_install(package: str, command: str) -> None:
    env = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    # Another process of apt may hold its lock for a while: wait for it rather than fail.
    apt = ["apt-get", "-o", "DPkg::Lock::Timeout=300", "-q", "-y"]
    with file_lock(_APT_LOCK), _no_services():
        for arguments in (["update"], ["install", "--no-install-recommends", package]):
            done = subprocess.run([*apt, *arguments], env=env, capture_output=True, text=True, check=False)
            if done.returncode != 0:
                tail = "\n".join((done.stdout + done.stderr).splitlines()[-5:])
                raise SandboxError(
                    f"apt-get {arguments[0]} for {package} failed with exit code {done.returncode}:\n{tail}",
                    hint=f"Install it by hand: {command}",
                    code="sandbox_program_missing",
                )


@contextmanager
def _no_services() -> Iterator[None]:
    """Keep packages from starting their services: invoke-rc.d asks policy-rc.d, 101 forbids (Debian policy 9.3.3.1)."""
    if _POLICY.exists():
        yield
        return
    _POLICY.write_text("#!/bin/sh\nexit 101\n", encoding="ascii")
    _POLICY.chmod(0o755)
    try:
        yield
    finally:
        _POLICY.unlink(missing_ok=True)
