"""The mixed loop's own judges: the index's oracle finds what it must, and every kind of fault gets its turn."""

from __future__ import annotations

import random
from collections import Counter
from itertools import islice
from typing import Any

import pytest

from tests.faults.changes import Key, text_of
from tests.faults.mixed.cluster import java_hash
from tests.faults.mixed.faults import FAULTS
from tests.faults.mixed.index_oracle import IndexOracle
from tests.faults.mixed.loop import in_turn
from tests.faults.oracle import Verdict

KEY: Key = ("items", 7)


@pytest.fixture
def oracle() -> Any:
    found = IndexOracle("127.0.0.1:1", "nowhere", Verdict())
    yield found
    found.close()


def document(version: int, text: str = "") -> dict[Key, dict[str, Any]]:
    return {KEY: {"id": KEY[1], "v": version, "w": text or text_of(*KEY, version)}}


@pytest.mark.parametrize(
    ("seen", "found"),
    [
        ([(document(1), "c"), (document(2), "cu"), ({}, "cud"), (document(4), "cudc")], []),
        ([(document(2), "cu"), (document(2), "cudcu"), (document(5), "cudcu")], []),
        ([({}, "c"), (document(1), "c")], []),
        ([(document(2), "cu"), (document(1), "cu")], ["disordered"]),
        ([(document(1), "c"), ({}, "cd"), (document(1), "cd")], ["resurrected"]),
        ([(document(1), "c"), ({}, "cdcd"), (document(3), "cdcd")], []),
        ([(document(3), "cdc"), ({}, "cdcd"), (document(1), "cdcd")], ["resurrected"]),
        ([(document(1), "c"), ({}, "cu")], ["lost"]),
        ([(document(3), "cu")], ["ghost"]),
        ([(document(2), "cd")], ["ghost"]),
        ([(document(1, "something else"), "c")], ["wrong"]),
    ],
)
def test_documents_go_forward_only_and_stay_deleted(oracle: IndexOracle, seen: list[Any], found: list[str]) -> None:
    for documents, ops in seen:
        oracle.look(documents, {KEY: list(ops)})
    assert sorted(oracle.verdict.counts) == found


def test_every_kind_has_its_turn() -> None:
    kinds = list(islice(in_turn(tuple(FAULTS), random.Random(3)), 5 * len(FAULTS)))
    assert set(Counter(kinds).values()) == {5}
    assert kinds[: len(FAULTS)] != kinds[len(FAULTS) : 2 * len(FAULTS)]


def test_hashes_are_those_of_java() -> None:
    """String.hashCode; the last is Integer.MIN_VALUE, of which Utils.abs leaves nothing."""
    assert [java_hash(text) for text in ("", "a", "hello", "polygenelubricants")] == [0, 97, 99162322, 0]
