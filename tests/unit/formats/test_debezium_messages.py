"""Our messages beside those that a real Debezium made of the same log, as they were recorded."""

from __future__ import annotations

from functools import cache

import pytest

from tests.unit.formats.debezium_differences import KNOWN, left_over
from tests.unit.formats.debezium_recording import KEPT, Recording, differences
from tests.unit.formats.debezium_tables import TABLES, VARIANTS


@cache
def _differences(variant: str) -> dict[str, list[str]]:
    kept = Recording(KEPT)
    ours = kept.ours(variant)
    return {table: list(differences(ours[table], kept.debezium[variant][table])) for table in TABLES}


@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize("table", TABLES)
def test_they_are_the_same_but_for_what_is_known(variant: str, table: str) -> None:
    assert left_over(_differences(variant)[table]) == []


def test_each_known_difference_is_one() -> None:
    found = [each for variant in VARIANTS for table in TABLES for each in _differences(variant)[table]]
    assert [known.where.pattern for known in KNOWN if not any(map(known.where.match, found))] == []


def test_there_is_something_to_compare() -> None:
    kept = Recording(KEPT)
    assert {variant: {table: len(of[table]) for table in TABLES} for variant, of in kept.debezium.items()} == {
        variant: {"every_type": 10, "zero": 2, "keyed": 6, "keyless": 4} for variant in VARIANTS
    }
