"""Figures, the bars they must reach, and the file and the line that state them."""

from __future__ import annotations

import json
import os
import platform
import time
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

_LIBRARIES = ("databus", "numba", "numpy", "pyarrow", "pyspark", "confluent-kafka", "mysql-replication")
_PROBE_BYTES = 32 << 20


@dataclass(frozen=True)
class Bar:
    """Bar that a figure must reach.

    Attributes:
        key: name of the figure.
        at_least: lower bound.
        at_most: upper bound.
    """

    key: str
    at_least: float | None = None
    at_most: float | None = None

    def reached(self, value: float) -> bool:
        """Return whether a value is within the bounds; NaN is not."""
        above = self.at_least is None or value >= self.at_least
        return above and (self.at_most is None or value <= self.at_most)

    def __str__(self) -> str:
        return f"≥ {self.at_least:,g}" if self.at_least is not None else f"≤ {self.at_most:,g}"


@dataclass(frozen=True)
class Result:
    """Result of a benchmark.

    Attributes:
        name: of the benchmark and its file.
        figures: key → number; what was not measured is left out.
        bars: bars for figures; one whose figure was not measured is not looked at.
        settings: sizes and options of the run.
        details: further facts that have no bar.
        headline: key of the figure that the last line states.
    """

    name: str
    figures: Mapping[str, float]
    bars: Sequence[Bar]
    settings: Mapping[str, Any]
    details: Mapping[str, Any]
    headline: str

    @property
    def missed(self) -> tuple[Bar, ...]:
        """Bars that a measured figure does not reach."""
        return tuple(b for b in self.bars if b.key in self.figures and not b.reached(self.figures[b.key]))

    @property
    def passed(self) -> bool:
        """Return whether the headline was measured and no bar missed."""
        return self.headline in self.figures and not self.missed

    def rows(self) -> list[dict[str, Any]]:
        """Return the table: figure, value, bar, and whether it was reached."""
        bars = {bar.key: bar for bar in self.bars}
        missed = {bar.key for bar in self.missed}
        return [
            {
                "figure": key,
                "value": value,
                "bar": str(bars[key]) if key in bars else None,
                "state": "missed" if key in missed else "reached" if key in bars else None,
            }
            for key, value in self.figures.items()
        ]

    def line(self) -> str:
        """Return the one line that states the result."""
        value = self.figures.get(self.headline)
        stated = f"{self.headline} {value:,.6g}" if value is not None else f"{self.headline} was not measured"
        bar = next((str(bar) for bar in self.bars if bar.key == self.headline), "")
        below = f"; below its bar: {', '.join(bar.key for bar in self.missed)}" if self.missed else ""
        return f"{self.name}: {stated} (bar {bar}){below}: {'passed' if self.passed else 'FAILED'}"

    def to_json(self) -> dict[str, Any]:
        """Return all of it with hardware, versions and the time."""
        return {
            **self.figures,
            "passed": self.passed,
            "bars": {bar.key: str(bar) for bar in self.bars},
            "missed": [bar.key for bar in self.missed],
            "details": dict(self.details),
            "settings": dict(self.settings),
            "hardware": hardware(),
            "versions": versions(),
            "at": datetime.now(UTC).isoformat(timespec="seconds"),
        }

    def write(self, folder: Path) -> Path:
        """Write `<name>.json` and return its path."""
        folder.mkdir(parents=True, exist_ok=True)
        path = folder / f"{self.name}.json"
        path.write_text(json.dumps(self.to_json(), indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
        return path


def hardware() -> dict[str, Any]:
    """Return cores, memory, how busy the machine was over the last minute, and what a CPU-second of it was worth now.

    `zlib_crc32_gb_per_cpu_second` compares runs: on a busy machine caches and memory are shared, and CPU-seconds with
    them get cheaper.
    """
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return {
        "cores": os.cpu_count(),
        "machine": platform.machine(),
        "system": platform.platform(),
        "memory_gb": round(memory / 2**30, 1),
        "load_average_1m": round(os.getloadavg()[0], 2),
        "zlib_crc32_gb_per_cpu_second": round(_crc32_speed(), 2),
    }


def _crc32_speed() -> float:
    data, best = bytes(_PROBE_BYTES), float("inf")
    for _ in range(5):
        began = time.process_time()
        zlib.crc32(data)
        best = min(best, time.process_time() - began)
    return _PROBE_BYTES / 1e9 / max(best, 1e-9)


def versions() -> dict[str, str]:
    """Return the versions of what took part: libraries and servers."""
    from databus.sandbox.versions import load_versions

    servers = {
        k: v for k, v in load_versions().as_dict().items() if k.startswith(("MYSQL_V", "MARIADB", "KAFKA", "DEBEZ"))
    }
    return {"python": platform.python_version(), **{name: version(name) for name in _LIBRARIES}, **servers}


def results_folder() -> Path:
    """Return where results go: `tests/bench/results` in a checkout, else `bench-results` in the working folder."""
    checkout = Path("tests/bench")
    return checkout / "results" if checkout.is_dir() else Path("bench-results")
