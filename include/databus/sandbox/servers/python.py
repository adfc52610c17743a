"""What servers written in Python, or running Python workers, inherit from this interpreter."""

from __future__ import annotations

import os
import sys
from pathlib import Path

_PACKAGE_ROOT = Path(__file__).resolve().parents[3]
LOCAL_HOSTS = "127.0.0.1,localhost"


def python_environment() -> dict[str, str]:
    """This interpreter first in `PATH`, this package in `PYTHONPATH`, and no proxy for local addresses."""
    inherited = [part for part in os.environ.get("PYTHONPATH", "").split(os.pathsep) if part]
    # A relative entry means another folder in a process that works elsewhere.
    absolute = [str(Path(part).absolute()) for part in inherited]
    python_path = dict.fromkeys([str(_PACKAGE_ROOT), *absolute])
    scripts = str(Path(sys.executable).parent)
    return {
        "PATH": os.pathsep.join([scripts, os.environ.get("PATH", os.defpath)]),
        "PYTHONPATH": os.pathsep.join(python_path),
        "PYSPARK_PYTHON": sys.executable,
        "PYSPARK_DRIVER_PYTHON": sys.executable,
        "PYTHONUNBUFFERED": "1",
        "NO_PROXY": LOCAL_HOSTS,
        "no_proxy": LOCAL_HOSTS,
    }
