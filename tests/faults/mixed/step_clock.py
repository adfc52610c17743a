"""A wall clock of the runs' own that can be stepped while they run; see step_clock.c."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

_SOURCE = Path(__file__).with_suffix(".c")
_PAGE = 64


class StepClock:
    """The clock of all processes that are started with `environment`.

    Attributes:
        environment: variables that put a process under this clock.
    """

    def __init__(self, folder: Path):
        """Compile the library that is preloaded.

        Raises:
            RuntimeError: there is no C compiler.
            subprocess.CalledProcessError: it refuses the source.
        """
        compiler = shutil.which("cc") or shutil.which("gcc")
        if compiler is None:
            raise RuntimeError("a clock step needs a C compiler (cc or gcc); leave the kind out with --kinds")
        folder.mkdir(parents=True, exist_ok=True)
        library, self._page = folder / "step_clock.so", folder / "step_clock"
        subprocess.run([compiler, "-shared", "-fPIC", "-O2", "-o", library, _SOURCE, "-ldl"], check=True)
        self._page.write_bytes(b"0".ljust(_PAGE, b"\0"))
        self.environment = {"LD_PRELOAD": str(library), "DATABUS_STEP_CLOCK": str(self._page)}

    def step(self, offset_s: int) -> None:
        """Let the clock be so far off from now on; the file is mapped, so that this holds at once."""
        file = os.open(self._page, os.O_WRONLY)
        try:
            os.pwrite(file, str(offset_s).encode().ljust(_PAGE, b"\0"), 0)
        finally:
            os.close(file)
