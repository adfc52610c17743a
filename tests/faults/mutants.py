"""Plants bugs one by one: the protocol model, a fault harness or a named test must catch each. `make mutants`."""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import time
from contextlib import ExitStack
from pathlib import Path
from unittest import mock

from databus.sandbox import Sandbox, SandboxOptions
from tests.faults.model_search import explore
from tests.faults.planted_bugs import MIRROR_LOOP, MUTANTS, Mutant


def caught_by_model(mutant: Mutant) -> str:
    """Explore the model with the bug planted; return what it found, "" for nothing."""
    if mutant.model is None:
        return ""
    with ExitStack() as stack:
        mutant.patch(lambda target, name, value: stack.enter_context(mock.patch.object(target, name, value)) and None)
        try:
            return explore(mutant.model).violation
        except Exception as error:  # noqa: BLE001 - the product's own assertions count
            return f"{type(error).__name__}: {error}"


def pytest_configure() -> None:
    """As a pytest plugin: plant the bug that the environment names."""
    MUTANTS[os.environ["DATABUS_MUTANT"]].apply()


def caught_by_test(name: str) -> str:
    """Run the named test with the bug planted; return what pytest says, "" when it passes."""
    command = [sys.executable, "-m", "pytest", "-q", "-p", "tests.faults.mutants", MUTANTS[name].test]
    done = subprocess.run(
        command, check=False, env={**os.environ, "DATABUS_MUTANT": name}, capture_output=True, text=True
    )
    return "" if done.returncode != 1 else done.stdout.strip().splitlines()[-1]


def caught_by_harness(name: str, home: Path, ports_from: int, rounds: int) -> str:
    """Play faults on servers that run already; return the first finding, "" for none.

    Raises:
        RuntimeError: the harness itself failed, which says nothing of the bug.
    """
    mutant = MUTANTS[name]
    command = [sys.executable, "-m", mutant.loop, "--ports-from", str(ports_from)]
    # The mirror's loop starts its own servers, two sandboxes, and removes them.
    command += (
        ["--source-brokers", "1", "--target-brokers", "1"] if mutant.loop == MIRROR_LOOP else ["--home", str(home)]
    )
    command += ["--rounds", str(rounds), "--seed", "7", "--kinds", *mutant.faults, "--mutant", name]
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    findings = [line.split("FINDING ")[1] for line in done.stdout.splitlines() if "FINDING " in line]
    if done.returncode != 0 and not findings:
        raise RuntimeError(f"mutant {name}: the harness failed:\n{done.stderr[-2000:]}")
    return findings[0] if findings else ""


def main() -> int:
    parser = argparse.ArgumentParser(prog="tests.faults.mutants", description=__doc__)
    parser.add_argument("names", nargs="*")
    parser.add_argument("--home", type=Path, default=Path("build/faults"), help="servers, stopped at the end")
    parser.add_argument("--ports-from", type=int, default=29_000)
    parser.add_argument("--rounds", type=int, default=12)
    options = parser.parse_args()
    sandbox = Sandbox(options.home, ports_from=options.ports_from, options=SandboxOptions())
    try:
        return _table(options)
    finally:
        sandbox.destroy()


def _table(options: argparse.Namespace) -> int:
    survivors = []
    for name in options.names or MUTANTS:
        mutant, began = MUTANTS[name], time.monotonic()
        found = {}
        if mutant.model is not None:
            found["model"] = caught_by_model(mutant)
        if mutant.test:
            found["test"] = caught_by_test(name)
        if mutant.faults and not any(found.values()):
            found["harness"] = caught_by_harness(name, options.home, options.ports_from, options.rounds)
        by = [f"{way}: {text}" for way, text in found.items() if text]
        survivors += [] if by else [name]
        line = f"{name:26} {time.monotonic() - began:6.1f} s  {'; '.join(by)[:150] or 'SURVIVED'}"
        sys.stdout.write(line + "\n")
        sys.stdout.flush()
    sys.stdout.write(f"{len(options.names or MUTANTS)} mutants, {len(survivors)} survived {survivors or ''}\n")
    return 1 if survivors else 0


if __name__ == "__main__":
    sys.exit(main())
