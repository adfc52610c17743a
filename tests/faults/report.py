"""The table by fault, and the report file that is kept."""

from __future__ import annotations

import json
import platform
import statistics
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tests.faults.world import Run

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


def _row(fault: str, rounds: int, counts: Counter[str], times: list[float]) -> tuple[str, ...]:
    figures = (f"{statistics.median(times):.2f}", f"{max(times):.2f}") if times else ("-", "-")
    return (fault, str(rounds), *(str(counts[kind]) for kind in JUDGED), *figures, str(len(times)))
