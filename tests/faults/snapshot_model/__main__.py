"""`python -m tests.faults.snapshot_model`: play N histories of each form of the protocol, print how many are wrong."""

from __future__ import annotations

import argparse
import sys
import time

from tests.faults.snapshot_model.histories import play, wrong
from tests.faults.snapshot_model.rules import HOLDS, WEAKENED


def main() -> int:
    parser = argparse.ArgumentParser(prog="tests.faults.snapshot_model", description=__doc__)
    parser.add_argument("--seeds", type=int, default=20_000, help="histories of each")
    parser.add_argument("--first", type=int, default=0, help="first seed")
    parser.add_argument("--only", default="", help="part of a name")
    parser.add_argument("--trace", type=int, help="print the steps of this seed instead")
    options = parser.parse_args()
    named = {name: rules for name, rules in (HOLDS | WEAKENED).items() if options.only in name}
    if options.trace is not None:
        for name, rules in named.items():
            steps: list[str] = []
            violation = play(options.trace, rules, steps)
            sys.stdout.write("\n".join([name, *steps, violation or "right"]) + "\n")
        return 0
    failed = False
    for name, rules in named.items():
        began = time.monotonic()
        found = wrong(range(options.first, options.first + options.seeds), rules)
        failed |= bool(found) is not (name in WEAKENED)
        first = "seed {}: {}".format(*next(iter(found.items()))) if found else ""
        seconds = time.monotonic() - began
        sys.stdout.write(f"{name:54} {len(found):6} wrong of {options.seeds}  {seconds:5.1f} s  {first}\n")
        sys.stdout.flush()
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
