"""Stored forms stay byte for byte, whichever names a flow is written with."""

from __future__ import annotations

import copy
import json
import math
import pickle
import warnings
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from databus import AlertWhen, Batching, Flow, Freshness, Kafka, Mirror, Mock, Noop
from databus.core.alerts.alert import AlertSpec
from databus.core.errors import ConfigError
from databus.core.flow_specs import CheckSpec, SinkSpec, SourceSpec, TransformSpec
from databus.core.stored_options import stored_options
from databus.registry import flow_from_json
from tests.unit.core.stored_forms import cases

GOLDEN = json.loads((Path(__file__).parent / "stored_forms" / "golden.json").read_text())
_PLACE = {
    SourceSpec: "source",
    SinkSpec: "sinks",
    TransformSpec: "transforms",
    CheckSpec: "checks",
    AlertSpec: "alerts",
}


def flow_of(part: Any) -> Flow:
    if isinstance(part, Flow):
        return part
    name = next(name for base, name in _PLACE.items() if isinstance(part, base))
    given = {"source": Mock(rows=1), "sinks": (Noop(),), name: part if name == "source" else (part,)}
    return Flow(name="g", **given)


def same(flow: Flow, name: str) -> None:
    golden = GOLDEN[name]
    assert (json.dumps(flow.to_json()), flow.spec_hash("code")) == (golden["json"], golden["hash"])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        again = flow_from_json(json.loads(golden["json"]))
    assert again == flow
    assert flow == again
    assert json.dumps(again.to_json()) == golden["json"]


def test_every_golden_form_is_compared() -> None:
    assert GOLDEN.keys() == {*cases.PLAIN, *cases.RENAMED, *cases.MIRRORS, "batching", "mirror_all"}


@pytest.mark.parametrize("name", cases.PLAIN)
def test_a_spec_without_renamed_options_is_stored_as_before(name: str) -> None:
    same(flow_of(cases.PLAIN[name]()), name)


@pytest.mark.parametrize("name", cases.RENAMED)
def test_former_and_new_names_are_stored_alike(name: str) -> None:
    kind, former, new = cases.RENAMED[name]
    same(flow_of(kind(**new)), name)
    with pytest.warns(FutureWarning, match="is now") as told:
        same(flow_of(kind(**former)), name)
    assert {w.filename for w in told} == {__file__}
    values = [name for name, value in former.items() if str(value) in getattr(kind, "former_values", {}).get(name, {})]
    assert len(told) == len(former.keys() & stored_options(kind).keys()) + len(values)


def test_batching_is_stored_alike() -> None:
    former, new = cases.BATCHING
    with pytest.warns(FutureWarning, match="is now"):
        old = Batching(**former)
    for batching in (old, Batching(**new)):
        same(Flow(name="g", source=Mock(rows=1), sinks=(Noop(),), batching=batching), "batching")


def test_a_mirror_is_stored_alike() -> None:
    same(Mirror(**cases.MIRROR_NEW), "mirror_all")
    with pytest.warns(FutureWarning, match="is now") as told:
        same(Mirror(**cases.MIRROR_OLD), "mirror_all")
    assert {w.filename for w in told} == {__file__}


@pytest.mark.parametrize("name", cases.MIRRORS)
def test_mirrors_of_each_shape_are_stored_as_before(name: str) -> None:
    same(Mirror(source_conn_id="east", target_conn_id="west", **cases.MIRRORS[name]), name)


@pytest.mark.parametrize("number", [1 / 3, 0.1 + 0.2, 1e-9, math.inf, 1e15])
def test_a_former_number_that_no_timedelta_holds_is_stored_as_it_is(number: float) -> None:
    with pytest.warns(FutureWarning, match="is now max_wait"):
        old = Batching(max_seconds=number)
    assert (old.stored()["max_seconds"], old.max_seconds) == (number, number)
    again = Batching.from_stored(json.loads(json.dumps(old.stored())))
    assert again == old
    assert old.model_copy(update={"max_wait": timedelta(seconds=2)}).max_seconds == 2.0
    assert old.model_copy(update={"max_seconds": 1 / 7}).stored()["max_seconds"] == 1 / 7


def test_a_duration_without_a_unit_is_refused_under_its_new_name() -> None:
    with pytest.raises(ConfigError, match=r"timeout=30: a timedelta is wanted.*timedelta\(seconds=30\)"):
        Kafka(conn_id="k", timeout=30)


def test_an_option_under_both_names_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"test_stored_names.py:\d+: Kafka: both timeout and timeout_s are given"):
        Kafka(conn_id="k", timeout=timedelta(seconds=1), timeout_s=1)
    with pytest.raises(ConfigError, match=r"test_stored_names.py:\d+: Mirror: both source_conn_id and source"):
        Mirror(name="m", source="a", source_conn_id="a", target_conn_id="b", topics="t")


def test_a_former_name_is_bound_as_the_new_one() -> None:
    with (
        pytest.warns(FutureWarning, match="is now no_run"),
        pytest.raises(ConfigError, match="no_run: Input should be greater than"),
    ):
        AlertWhen(no_run_minutes=0)


def test_a_bare_number_of_freshness_is_a_former_way_to_say_it() -> None:
    with pytest.warns(FutureWarning, match=r"max_age_s is now max_age=timedelta\(seconds=300\)"):
        assert Freshness(300) == Freshness(timedelta(minutes=5))


def test_a_mirror_names_the_option_that_it_does_not_know() -> None:
    with pytest.raises(
        ConfigError, match=r"test_stored_names.py:\d+: Mirror: unknown option topic.*Mirror takes: name"
    ):
        Mirror(name="m", source_conn_id="a", target_conn_id="b", topics="t", topic="u")


def test_a_mirrors_own_options_are_told_where_one_is_wrong() -> None:
    with pytest.raises(
        ConfigError, match=r"test_stored_names.py:\d+: Mirror: name: .*Mirror takes: alerts.*source_conn_id"
    ) as told:
        Mirror(name="No", source_conn_id="a", target_conn_id="b", topics="t")
    assert "transforms" not in told.value.hint


def test_a_mirror_is_copied_and_pickled_as_a_flow_is() -> None:
    made = Mirror(**cases.MIRROR_NEW)
    for other in (pickle.loads(pickle.dumps(made)), copy.deepcopy(made), made.model_copy(update={"mode": "live"})):
        assert type(other) is Mirror
        assert (other == made) is (other.mode == made.mode)
