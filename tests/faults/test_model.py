"""The protocol model finds nothing wrong with the product, and finds each planted bug."""

from __future__ import annotations

from typing import Any

import pytest

from tests.faults.model_search import explore
from tests.faults.model_state import Size
from tests.faults.mutants import caught_by_model
from tests.faults.planted_bugs import MUTANTS, Mutant, replace_known

SIZES = {
    "a crash and a lost session": Size(units=1, crashes=1, expiries=1, epochs=3),
    "two slots": Size(units=2, slots=2, crashes=1, expiries=0, epochs=2),
    "a lost answer": Size(units=1, crashes=0, expiries=1, lost=1, epochs=3),
    "two batches": Size(units=2, crashes=0, expiries=1, epochs=2),
    "slots lowered and raised": Size(units=3, slots=2, crashes=1, expiries=0, epochs=2, resized=True),
    "a changed definition": Size(units=1, slots=2, crashes=1, expiries=0, epochs=3, definitions=2),
    "a definition that comes back": Size(units=1, slots=2, crashes=2, expiries=0, epochs=3, definitions=2),
    "one that comes back to who has lost the flow": Size(
        units=1, slots=1, crashes=0, expiries=3, epochs=4, definitions=2
    ),
}


@pytest.mark.parametrize("size", SIZES.values(), ids=SIZES)
def test_every_interleaving_keeps_the_invariants(size: Size) -> None:
    found = explore(size)
    assert found.violation == "", "\n".join(found.trace)
    assert found.complete
    assert found.finished > 0


@pytest.mark.parametrize(
    "mutant", [m for m in MUTANTS.values() if m.model], ids=[n for n, m in MUTANTS.items() if m.model]
)
def test_a_planted_bug_is_found(mutant: Mutant) -> None:
    assert caught_by_model(mutant) != ""


@pytest.mark.parametrize("mutant", MUTANTS.values(), ids=MUTANTS)
def test_what_a_planted_bug_changes_is_there(mutant: Mutant, monkeypatch: pytest.MonkeyPatch) -> None:
    changed: list[str] = []

    def plant(target: Any, name: str, value: Any) -> None:
        monkeypatch.setattr(target, name, value, raising=name not in getattr(target, "__annotations__", {}))
        changed.append(name)

    mutant.patch(plant)
    assert changed


def test_a_bug_is_not_planted_where_nothing_is() -> None:
    with pytest.raises(AttributeError, match="no_such"):
        replace_known(Mutant, "no_such", None)
