"""What a script learns from the exit code of a command that moved rows."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from typer.testing import CliRunner

from databus.cli import run as moving
from databus.cli.main import app
from databus.cli.terminal import exits
from databus.core.batches.counts import SinkCounts
from databus.core.positions.offsets import OffsetRange, SequenceOffset
from databus.core.state.checkpoint import Checkpoint, Epoch
from databus.core.state.plan import LostRange
from databus.runtime.window_result import WindowResult

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)


def window(
    quarantined: int = 0, sinks: dict[str, SinkCounts] | None = None, behind: dict[str, str] | None = None
) -> WindowResult:
    stands = Checkpoint(SequenceOffset(9), 1, Epoch(1), "run", "", {}, None, NOON)
    return WindowResult("orders", stands, rows=10, quarantined=quarantined, sinks=sinks or {}, behind=behind or {})


def over_a_gap(quarantined: int = 0) -> WindowResult:
    result = window(quarantined, WELL)
    result.lost.append(LostRange(OffsetRange(SequenceOffset(0), SequenceOffset(1)), "retention took t[0]"))
    return result


WELL = {"kafka": SinkCounts(10), "search": SinkCounts(10)}
REFUSED = {"kafka": SinkCounts(10), "search": SinkCounts(7, 3)}


@pytest.mark.parametrize(
    ("result", "state", "code", "said"),
    [
        (window(sinks=WELL), "ok", exits.OK, ""),
        (window(3, REFUSED), "rejected", exits.HELD, "sink search refused 3 rows; 3 rows are in quarantine; `databus"),
        (window(0, REFUSED), "rejected", exits.HELD, "`databus quarantine list orders` shows them"),
        (window(2, WELL), "quarantined", exits.HELD, "NOT WELL: 2 rows are in quarantine"),
        (window(1, WELL), "quarantined", exits.HELD, "NOT WELL: 1 row is in quarantine"),
        (over_a_gap(), "lost", exits.HELD, "a gap was passed over: retention took t[0]; `databus gaps orders` names"),
        (over_a_gap(2), "lost", exits.HELD, "2 rows are in quarantine"),
        (window(behind={"search": "9"}), "ok", exits.UNREACHABLE, "sink search is behind, at 9"),
        (window(2, WELL, {"search": "9"}), "quarantined", exits.HELD, "sink search is behind, at 9"),
    ],
)
def test_a_run_that_lost_or_held_back_a_row_is_not_told_as_well(
    result: WindowResult, state: str, code: int, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert result.summary()["state"] == state
    assert moving._told(result) == code
    told = capsys.readouterr().err
    assert said in told
    assert bool(told) == bool(said)


def test_the_codes_are_told_by_help() -> None:
    codes = (
        exits.OK,
        exits.ERROR,
        exits.USAGE,
        exits.CONFLICT,
        exits.UNREACHABLE,
        exits.QUALITY,
        exits.LAG,
        exits.HELD,
    )
    assert codes == tuple(range(8))
    text = " ".join(CliRunner().invoke(app, ["--help"]).stdout.split())
    assert all(f"{code} " in text.partition("Exit codes:")[2] for code in codes)
    assert "Exit code 7" in " ".join(CliRunner().invoke(app, ["run", "--help"]).stdout.split())
