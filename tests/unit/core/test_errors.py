from __future__ import annotations

import copy
import pickle

import pytest

from databus.core import errors
from databus.core.errors import DatabusError, SinkBackpressureError, SourceUnavailableError


def all_errors(root: type[DatabusError] = DatabusError) -> list[type[DatabusError]]:
    return [root, *(found for child in root.__subclasses__() for found in all_errors(child))]


CORE = [e for e in all_errors() if e.__module__.startswith(f"{errors.__name__}.")]


def test_the_package_names_every_error_of_its_modules() -> None:
    assert len(CORE) > 55
    assert {kind.__name__ for kind in CORE} == {getattr(errors, name).__name__ for name in errors.__all__}


@pytest.mark.parametrize("kind", CORE, ids=lambda kind: kind.__name__)
def test_errors_cross_process_borders_unchanged(kind: type[DatabusError]) -> None:
    error = kind("flow orders: broken", hint="mend it", code="special_case", retryable=not kind.retryable)
    for copied in (pickle.loads(pickle.dumps(error)), copy.copy(error), copy.deepcopy(error)):
        assert type(copied) is kind
        assert (copied.message, copied.hint, copied.code, copied.retryable) == (
            "flow orders: broken",
            "mend it",
            "special_case",
            not kind.retryable,
        )
        assert str(copied) == str(error)
        assert copied.args == error.args


def test_fields_of_an_error_travel_too() -> None:
    error = SinkBackpressureError("slow down")
    error.retry_after_s = 7.5
    assert pickle.loads(pickle.dumps(error)).retry_after_s == 7.5


def test_the_text_names_code_message_and_hint() -> None:
    error = SourceUnavailableError("mysql_shop: connection refused", hint="Start it.")
    assert str(error) == "[source_unavailable] mysql_shop: connection refused Hint: Start it."
    assert str(DatabusError("x")) == "[databus_error] x"


def test_codes_are_unique() -> None:
    codes = [kind.code for kind in CORE]
    assert sorted(codes) == sorted(set(codes))


def test_one_error_does_not_change_its_class() -> None:
    DatabusError("x", code="other", retryable=True)
    assert (DatabusError.code, DatabusError.retryable) == ("databus_error", False)
