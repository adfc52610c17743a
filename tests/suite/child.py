"""A command that is waited for however it ends: what it started, servers too, it stops itself."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

_INTERRUPTED = 130


def run(command: Sequence[str], cwd: Path, environment: Mapping[str, str] | None = None) -> int:
    """Run a command and return its exit code.

    Ctrl-C reaches the command as well, as the terminal interrupts both: it is given the time it takes.
    (`subprocess.run` kills it a quarter of a second later, and what it started stays.)

    Raises:
        KeyboardInterrupt: once the command has ended, where this was interrupted.
    """
    interrupted = False
    process = subprocess.Popen(command, cwd=cwd, env=environment)
    while True:
        try:
            code = process.wait()
            break
        except KeyboardInterrupt:
            interrupted = True
    if interrupted:
        raise KeyboardInterrupt
    return code


def interruptible(main: Callable[[], int]) -> int:
    """Return what a command's main function does; 130, as shells have it, where it was interrupted."""
    try:
        return main()
    except KeyboardInterrupt:
        return _INTERRUPTED
