"""Trial of the wheels in an environment of its own: another Python, another Airflow, or the lowest versions allowed.

For example `python packaging/trial.py build/lowest --lowest -- tests/unit` (`make test-lowest`), or
`python packaging/trial.py build/airflow31 --airflow 3.1 -- tests/airflow`.
With --airflow the versions of Airflow and of all that it needs are locked first, without databus: constraints under
which databus is installed, as Airflow's own are. Needs a package registry.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

import wheels

ROOT = wheels.ROOT
UV = Path(sys.executable).with_name("uv")
EXTRAS = ("airflow", "elasticsearch", "kafka", "lineage", "mysql", "postgres", "quality", "registry", "spark")
PROVIDERS = ("apache-kafka", "apache-spark", "openlineage", "standard")
BESIDE = ("pandas<3", "pyspark-client<4.1.4")
"""What Airflow's few providers leave open here; databus and pyspark 4.1 do not."""

TOOLS = ("httpx", "hypothesis", "packaging", "psutil", "pytest", "pytest-timeout", "pytest-xdist")
"""What the tests run on, in the versions of requirements.txt whatever the trial is of."""


@dataclass(frozen=True)
class Trial:
    """Environment in which the wheels are tried.

    Attributes:
        folder: where it is made; the environment is `venv` below it.
        python: the interpreter, a version or a file, e.g. "3.12"; "" for the one that runs this.
        lowest: whether each direct dependency has the lowest version that pyproject allows.
        airflow: minor release of Airflow, e.g. "3.1"; "" for the one that is resolved.
        before: only versions that were published before this day, e.g. "2025-11-01"; "" for all.
        extras: which of databus are installed.
        sandbox: whether databus-sandbox is installed too.
    """

    folder: Path
    python: str = ""
    lowest: bool = False
    airflow: str = ""
    before: str = ""
    extras: tuple[str, ...] = EXTRAS
    sandbox: bool = True

    @property
    def interpreter(self) -> Path:
        """Interpreter of the environment."""
        return self.folder / "venv" / "bin" / "python"

    def constraints(self) -> Path:
        """Lock Airflow and its providers without databus, and return the file.

        Raises:
            RuntimeError: no versions fit.
        """
        wanted = self.folder / "airflow.in"
        lines = [
            f"apache-airflow=={self.airflow}.*",
            *(f"apache-airflow-providers-{name}" for name in PROVIDERS),
            *BESIDE,
        ]
        wanted.write_text("\n".join(lines) + "\n")
        locked = self.folder / "constraints.txt"
        self._resolve(wanted, locked)
        return locked

    def requirements(self) -> Path:
        """Resolve what databus and its extras need, and return the file.

        Raises:
            RuntimeError: no versions fit.
        """
        locked = self.folder / "requirements.txt"
        constraints = ["-c", str(self.constraints())] if self.airflow else []
        extras = [word for extra in self.extras for word in ("--extra", extra)]
        lowest = ["--resolution", "lowest-direct"] if self.lowest else []
        self._resolve(ROOT / "pyproject.toml", locked, *extras, *constraints, *lowest)
        return locked

    def install(self) -> None:
        """Make the environment anew, with both wheels.

        Raises:
            RuntimeError: no versions fit, or a package cannot be installed.
        """
        self.folder.mkdir(parents=True, exist_ok=True)
        locked = self.requirements()
        built = wheels.build(self.folder / "wheels")
        _run(str(UV), "venv", "--quiet", "--clear", "--python", self.python or sys.executable, self.folder / "venv")
        pip = (UV, "pip", "install", "--quiet", "--python", self.interpreter)
        _run(*pip, "-r", locked)
        _run(*pip, "--no-deps", "--reinstall", *(built if self.sandbox else built[:1]))

    def add_tools(self) -> None:
        """Install what the tests run on.

        Raises:
            RuntimeError: it does not go with what is installed.
        """
        pins = dict(line.split("==") for line in (ROOT / "requirements.txt").read_text().split())
        _run(
            UV, "pip", "install", "--quiet", "--python", self.interpreter, *(f"{name}=={pins[name]}" for name in TOOLS)
        )

    def _resolve(self, wanted: Path, locked: Path, *options: str) -> None:
        before = ["--exclude-newer", self.before] if self.before else []
        python = ["--python", self.python or sys.executable]
        common = ["--quiet", "--no-annotate", "--no-header", "--output-file", str(locked)]
        _run(UV, "pip", "compile", *common, *before, *python, *options, wanted)


def _run(*words: str | Path) -> None:
    done = subprocess.run([*map(str, words)], cwd=ROOT, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"{' '.join(map(str, words))}:\n{done.stderr[-6000:]}")


def main() -> int:
    """Make the environment and run pytest in it; return its exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, help="where the environment is made")
    parser.add_argument("--python", default="", help="version or file of the interpreter, e.g. 3.12")
    parser.add_argument("--lowest", action="store_true", help="the lowest versions that pyproject allows")
    parser.add_argument("--airflow", default="", help="e.g. 3.1")
    parser.add_argument("--before", default="", help="only what was published before, e.g. 2025-11-01")
    parser.add_argument("--extras", default=",".join(EXTRAS), help="extras of databus")
    parser.epilog = "Behind -- stand arguments of pytest; without any it only installs."
    words = sys.argv[1:]
    cut = words.index("--") if "--" in words else len(words)
    given, tests = parser.parse_args(words[:cut]), words[cut + 1 :]
    extras = tuple(given.extras.split(","))
    trial = Trial(given.folder.absolute(), given.python, given.lowest, given.airflow, given.before, extras)
    trial.install()
    if not tests:
        return 0
    trial.add_tools()
    return subprocess.run([trial.interpreter, "-m", "pytest", *tests], cwd=ROOT, check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
