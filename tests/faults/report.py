"""The table by fault, and the report file that is kept."""

from __future__ import annotations

import json
import platform
import statistics
import sys
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tests.faults.oracle import Verdict
    from tests.faults.world import Run

RESULTS = Path(__file__).parent / "results"
JUDGED = ("lost", "duplicated", "disordered", "wrong", "ghost", "resurrected", "zombie", "stuck")


@dataclass
class Report:
    """What the rounds came to.

    Attributes:
        seed: of the schedule.
        rounds: per fault the number of rounds.
        recovery_s: per fault the times from the end of the fault to the next commit.
        findings: what must not be, in words.
        counts: the same by kind and fault.
        errors: codes with which runs ended.
        fates: what became of zombies: refused by what.
        timeline: (seconds since the start, what happened).
        facts: further figures.
    """

    seed: int
    rounds: Counter[str] = field(default_factory=Counter)
    recovery_s: dict[str, list[float]] = field(default_factory=dict)
    findings: list[str] = field(default_factory=list)
    counts: dict[str, Counter[str]] = field(default_factory=dict)
    errors: Counter[str] = field(default_factory=Counter)
    fates: Counter[str] = field(default_factory=Counter)
    timeline: list[tuple[float, str]] = field(default_factory=list)
    facts: dict[str, Any] = field(default_factory=dict)
    _taken: int = 0
    _began: float = field(default_factory=time.monotonic)

    def note(self, text: str) -> None:
        """Add a line to the timeline."""
        self.timeline.append((round(time.monotonic() - self._began, 3), text))

    def note_end(self, run: Run, what: str = "") -> None:
        """Note what a run that has ended failed with, if it did; `what` marks a zombie."""
        for event in run.told("failed"):
            self.errors[what + (event["code"] or event["kind"])] += 1
            self.note(f"run {run.number} failed: {event['kind']} {event['text'][:300]}")
            if not event["retryable"] and not what:
                self.errors[f"not retryable: {event['code']}"] += 1

    def find(self, kind: str, fault: str, text: str, number: int = 1) -> None:
        """Add what must not be."""
        self.counts.setdefault(fault, Counter())[kind] += number
        self.findings.append(f"{kind} ({fault}): {text}")
        self.note(f"FINDING {kind} ({fault}): {text}")

    def take(self, verdict: Verdict, fault: str) -> None:
        """Add what the topic's oracle has found since it was asked last."""
        for example in verdict.examples[self._taken :]:
            kind, _, text = example.partition(": ")
            self.find(kind, fault, text)
        self._taken = len(verdict.examples)

    @property
    def clean(self) -> bool:
        """Whether nothing was found."""
        return not self.findings

    def table(self) -> str:
        """Return the table by fault."""
        head = ("fault", "rounds", *JUDGED, "recovery p50 s", "worst s", "measured")
        total: Counter[str] = Counter()
        rows = []
        for fault in sorted({*self.rounds, *self.counts}):
            counts = self.counts.get(fault, Counter())
            total.update(counts)
            rows.append(_row(fault, self.rounds[fault], counts, self.recovery_s.get(fault, [])))
        every = [s for times in self.recovery_s.values() for s in times]
        rows.append(_row("all", sum(self.rounds.values()), total, every))
        widths = [max(len(row[i]) for row in (head, *rows)) for i in range(len(head))]
        lines = [" | ".join([row[0].ljust(widths[0]), *map(str.rjust, row[1:], widths[1:])]) for row in (head, *rows)]
        return "\n".join([lines[0], "-|-".join("-" * w for w in widths), *lines[1:]])

    def summary(self) -> str:
        """Return what a person is told at the end: what was found, the table, and how runs ended."""
        found = [*(f"{at:9.3f} {text}" for at, text in self.timeline[-60:]), *self.findings[:40]]
        facts = {name: value for name, value in self.facts.items() if name != "stall_s"}
        return "\n".join(
            [
                *(() if self.clean else found),
                self.table(),
                f"{facts}; runs ended with {dict(self.errors)}",
                f"zombies: {dict(self.fates)}",
                f"seed {self.seed}: {'clean' if self.clean else 'FINDINGS'}",
            ]
        )

    def keep(self, file: Path, log: Path) -> None:
        """Save it, and beside it the runs' log if something was found."""
        self.save(file)
        if not self.clean:
            file.with_suffix(".log").write_bytes(log.read_bytes())

    def save(self, file: Path) -> None:
        """Write everything as JSON."""
        file.parent.mkdir(parents=True, exist_ok=True)
        every = [s for times in self.recovery_s.values() for s in times]
        value = {
            "seed": self.seed,
            "rounds": dict(self.rounds),
            "total_rounds": sum(self.rounds.values()),
            "found": {fault: dict(c) for fault, c in self.counts.items()},
            "findings": self.findings,
            "recovery_s": {f: [round(s, 3) for s in times] for f, times in self.recovery_s.items()},
            "recovery_p50_s": round(statistics.median(every), 3) if every else None,
            "recovery_worst_s": round(max(every), 3) if every else None,
            "errors": dict(self.errors),
            "zombies": dict(self.fates),
            "facts": self.facts,
            "machine": {"platform": platform.platform(), "python": platform.python_version()},
            "timeline": self.timeline,
        }
        file.write_text(json.dumps(value, indent=1))


def say(text: str) -> None:
    """Print a line with the time, at once."""
    sys.stdout.write(f"{time.strftime('%H:%M:%S')} {text}\n")
    sys.stdout.flush()


def _row(fault: str, rounds: int, counts: Counter[str], times: list[float]) -> tuple[str, ...]:
    figures = (f"{statistics.median(times):.2f}", f"{max(times):.2f}") if times else ("-", "-")
    return (fault, str(rounds), *(str(counts[kind]) for kind in JUDGED), *figures, str(len(times)))
