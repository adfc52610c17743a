from __future__ import annotations

from tests.suite.changed import imports, module_of, modules, nearest, touched, within

SMALL = {
    "databus.core.a": frozenset[str](),
    "databus.core": frozenset({"databus.core.a"}),
    "databus.b": frozenset({"databus.core"}),
    "databus.c": frozenset({"databus.b"}),
    "tests.unit.test_c": frozenset({"databus.c"}),
    "tests.integration.helper": frozenset({"databus.core"}),
    "tests.integration.test_near": frozenset({"tests.integration.helper"}),
    "tests.integration.test_far": frozenset({"databus.c"}),
    "tests.integration.test_other": frozenset[str](),
}


def test_unit_tests_are_touched_from_afar_and_server_tests_from_near() -> None:
    assert touched({"databus.core.a"}, SMALL) == {"tests.unit.test_c", "tests.integration.test_near"}
    assert touched({"databus.c"}, SMALL) == {"tests.unit.test_c", "tests.integration.test_far"}
    assert touched({"tests.integration.test_other"}, SMALL) == {"tests.integration.test_other"}
    assert touched({"tests.integration.helper"}, SMALL) == {"tests.integration.test_near"}
    assert touched(set(), SMALL) == set()


def test_the_tree_is_read_as_it_is() -> None:
    known = imports(modules())
    found = touched({"databus.kafka.callbacks"}, known)
    assert "tests.unit.kafka.test_callbacks" in found
    assert "tests.unit.sinks.test_kafka_session" in found
    assert "databus.core.plan" in known["databus.runtime.dispatch"]
    assert "tests.integration.conftest" in known["tests.integration.test_kill"]


def test_what_is_gone_and_what_all_tests_stand_on_count_too() -> None:
    known = imports(modules(), ["databus.kafka.gone"])
    assert "tests.unit.kafka.test_callbacks" in touched({"tests.suite.groups"}, known)
    assert "tests.unit.kafka.test_callbacks" in touched({"databus.kafka"}, known)
    assert touched({"databus.kafka.gone"}, known) == set()


def test_files_are_named_as_modules_where_they_are_some() -> None:
    assert module_of("include/databus/kafka/__init__.py") == "databus.kafka"
    assert module_of("tests/unit/test_tls.py") == "tests.unit.test_tls"
    assert module_of("include/databus/sandbox/versions.env") == module_of("jobs/micro_batch.py") == ""


def test_the_nearest_and_shortest_are_run_and_the_others_told() -> None:
    known = {"a": frozenset[str](), "far": frozenset({"b"}), "near": frozenset({"a"}), "near_long": frozenset({"a"})}
    seconds = {"a": 90.0, "far": 1.0, "near": 5.0, "near_long": 50.0}
    order = nearest(["far", "near_long", "near", "a"], ["a"], known, seconds)
    assert order == ["a", "near", "near_long", "far"]
    assert within(order, ["a"], seconds, 100) == (["a", "near", "far"], ["near_long"])
    assert within(order, ["a", "near_long"], seconds, 1) == (["a", "near_long"], ["near", "far"])
    assert within(order, [], seconds, 1) == (["a"], ["near", "near_long", "far"])
    assert within([], [], seconds, 1) == ([], [])
