from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, datetime

import pytest

from databus.core.errors import CheckpointFormatError
from databus.core.positions.gaps import OPEN, Gap
from databus.core.positions.offsets import BinlogOffset, OffsetRange

NOON = datetime(2024, 1, 31, 12, tzinfo=UTC)
START, END = BinlogOffset("mysql-bin.000001", 4), BinlogOffset("mysql-bin.000007", 157)
GAP = Gap(3, START, END, "purged", "skipped", "ada", "copied by hand", NOON)


def test_a_gap_is_stored_under_the_names_of_the_layout() -> None:
    assert GAP.to_json() == {
        "v": 1,
        "number": 3,
        "from": START.to_json(),
        "to": END.to_json(),
        "cause": "purged",
        "decision": "skipped",
        "who": "ada",
        "why": "copied by hand",
        "at": "2024-01-31T12:00:00+00:00",
    }


def test_a_gap_survives_its_stored_form() -> None:
    assert Gap.from_json(json.loads(json.dumps(GAP.to_json()))) == GAP


def test_another_version_is_refused() -> None:
    with pytest.raises(CheckpointFormatError, match="gap has format version 2"):
        Gap.from_json({**GAP.to_json(), "v": 2})


def test_a_gap_that_was_mended_was_passed_over_all_the_same() -> None:
    moved = OffsetRange(START, END)
    for decision in ("skipped", "being mended by snapshot 2", "mended by snapshot 2"):
        assert replace(GAP, decision=decision).passed
        assert replace(GAP, decision=decision).within(moved)
    assert not replace(GAP, decision=OPEN).passed
    assert not replace(GAP, decision=OPEN).within(moved)
    assert not replace(GAP, cause="skip").within(moved)


def test_a_gap_says_where_and_why() -> None:
    assert str(GAP) == "(mysql-bin.000001:4, mysql-bin.000007:157] purged, skipped"
