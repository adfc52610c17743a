"""Wheels of this tree: databus, and databus-sandbox with what is for trying and measuring. Needs no network.

`python packaging/wheels.py FOLDER` (`make wheels`) builds both from a copy of the tree, so that nothing is left in it.
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PROJECTS = (".", "packaging/databus-sandbox")
"""Folders with a pyproject.toml, the one that the others need first."""

_PARTS = ("include", "packaging", "pyproject.toml", "README.md", "LICENSE")
_BUILD = "import sys; from setuptools import build_meta; print('@', build_meta.build_wheel(sys.argv[1]))"


def build(folder: Path) -> list[Path]:
    """Build both wheels into a folder, and return their files.

    Raises:
        RuntimeError: setuptools refuses; holds what it said.
    """
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="databus-wheels-") as scratch:
        tree = Path(scratch)
        for part in _PARTS:
            if (ROOT / part).is_dir():
                ignored = shutil.ignore_patterns("__pycache__", "*.egg-info", "build")
                shutil.copytree(ROOT / part, tree / part, ignore=ignored)
            else:
                shutil.copy2(ROOT / part, tree / part)
        shutil.copy2(ROOT / "LICENSE", tree / PROJECTS[1])
        return [_wheel(tree / project, folder) for project in PROJECTS]


def _wheel(project: Path, folder: Path) -> Path:
    # A process each: setuptools reads the project of the working directory, and keeps what it read.
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", _BUILD, str(folder.resolve())],
        cwd=project, capture_output=True, text=True, check=False,
    )  # fmt: skip
    if done.returncode:
        raise RuntimeError(f"{project.name}: {done.stderr[-4000:]}")
    names = [line[2:] for line in done.stdout.splitlines() if line.startswith("@ ")]
    return folder / names[-1]


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path, help="where the wheels go")
    for wheel in build(parser.parse_args().folder):
        sys.stdout.write(f"{wheel}\n")
