from __future__ import annotations

from kazoo.exceptions import BadVersionError, NodeExistsError, RolledBackError, RuntimeInconsistency

from databus.checkpoints.connection.transaction import check, create, delete, first_refusal, set_data, size_bytes

OPERATIONS = [check("/e", 3), create("/p", b"x"), set_data("/c", b"y", 1), delete("/q")]


def test_an_applied_write_has_no_refusal() -> None:
    assert first_refusal(OPERATIONS, [True, "/p", object(), True]) is None


def test_the_operation_at_fault_is_found_among_those_rolled_back() -> None:
    fault = NodeExistsError()
    refusal = first_refusal(OPERATIONS, [RolledBackError(), fault, RuntimeInconsistency(), RuntimeInconsistency()])
    assert refusal is not None
    assert (refusal.operation, refusal.cause) == (OPERATIONS[1], fault)
    assert str(refusal) == "create /p: NodeExistsError"


def test_the_first_operation_may_be_at_fault() -> None:
    refusal = first_refusal(OPERATIONS, [BadVersionError(), *[RuntimeInconsistency()] * 3])
    assert refusal is not None
    assert refusal.operation == OPERATIONS[0]


def test_a_refusal_without_a_cause_is_still_one() -> None:
    assert first_refusal(OPERATIONS, [RolledBackError(), *[RuntimeInconsistency()] * 3]) is not None


def test_the_size_counts_paths_and_content() -> None:
    small, large = [create("/p", b"")], [create("/p" + "ü" * 10, b"x" * 1000)]
    assert size_bytes(large) - size_bytes(small) == 1020
    assert size_bytes([*small, *small]) == 2 * size_bytes(small)
