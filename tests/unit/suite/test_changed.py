from __future__ import annotations

from tests.suite.changed import imports, modules, touched

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
