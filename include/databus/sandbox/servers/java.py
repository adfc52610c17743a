"""Java servers' start."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Sequence
from importlib import resources
from pathlib import Path

from databus.core.errors.config import SandboxError
from databus.sandbox import packages

_PACKAGE = "databus.sandbox"


def source_text(name: str) -> str:
    """A Java source of this package."""
    return resources.files(_PACKAGE).joinpath("java", name).read_text(encoding="utf-8")


def copy_config(name: str, target: Path) -> Path:
    """Copy a configuration file of this package to `target`."""
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(resources.files(_PACKAGE).joinpath("config", name).read_text(encoding="utf-8"), encoding="utf-8")
    return target


def java_argv(main: str, class_path: str, *arguments: str, heap: str, options: Sequence[str] = ()) -> tuple[str, ...]:
    """Command line of a Java program with a fixed heap (Java's notation: `512m`)."""
    java = str(packages.require_java())
    # Few collector threads: the sandbox runs many servers on few cores.
    tuning = ("-XX:+UseSerialGC", "-Djava.awt.headless=true")
    return (java, f"-Xms{heap}", f"-Xmx{heap}", *tuning, *options, "-cp", class_path, main, *arguments)


def compile_sources(sources: Sequence[str], class_path: str, target: Path) -> None:
    """Compile sources of this package into `target`.

    Raises:
        SandboxError: javac is missing or refuses them.
    """
    javac = packages.require(packages.JAVAC)
    target.mkdir(parents=True, exist_ok=True)
    work = target / ".sources"
    work.mkdir()
    try:
        paths = []
        for name in sources:
            path = work / name
            path.write_text(source_text(name), encoding="utf-8")
            paths.append(str(path))
        argv = [str(javac), "--release", "17", "-nowarn", "-proc:none", "-cp", class_path, "-d", str(target), *paths]
        done = subprocess.run(argv, capture_output=True, text=True, check=False)
    finally:
        shutil.rmtree(work)
    if done.returncode != 0:
        raise SandboxError(f"javac refused {', '.join(sources)}:\n{done.stderr[-2000:]}")
