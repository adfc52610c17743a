"""Atomic writes to ZooKeeper as values, and the two ways in which one can fail."""

from __future__ import annotations

import enum
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

_OVERHEAD_BYTES = 128
"""Upper bound of one operation's header and ACL on the wire (zookeeper.jute: MultiHeader, CreateRequest)."""

ANY_VERSION = -1


class OperationKind(enum.Enum):
    """Operation kind of a multi."""

    CHECK = "check"
    CREATE = "create"
    SET = "set"
    DELETE = "delete"


@dataclass(frozen=True)
class Operation:
    """Operation of a multi.

    Attributes:
        kind: what it does.
        path: node.
        data: new content of CREATE and SET.
        version: data version that CHECK, SET and DELETE demand; ANY_VERSION for none.
        ephemeral: CREATE a node that ends with the session.
        sequence: CREATE with a number appended to the name.
    """

    kind: OperationKind
    path: str
    data: bytes = b""
    version: int = ANY_VERSION
    ephemeral: bool = False
    sequence: bool = False

    def __str__(self) -> str:
        return f"{self.kind.value} {self.path}"


def check(path: str, version: int) -> Operation:
    """Demand a data version of a node."""
    return Operation(OperationKind.CHECK, path, version=version)


def create(path: str, data: bytes, *, ephemeral: bool = False, sequence: bool = False) -> Operation:
    """Create a node."""
    return Operation(OperationKind.CREATE, path, data, ephemeral=ephemeral, sequence=sequence)


def set_data(path: str, data: bytes, version: int) -> Operation:
    """Replace the content of a node of a given data version."""
    return Operation(OperationKind.SET, path, data, version)


def delete(path: str, version: int = ANY_VERSION) -> Operation:
    """Delete a node."""
    return Operation(OperationKind.DELETE, path, version=version)


def size_bytes(operations: Sequence[Operation]) -> int:
    """Return an upper bound of the request's size on the wire."""
    return sum(len(o.path.encode()) + len(o.data) + _OVERHEAD_BYTES for o in operations)


class OutcomeUnknownError(Exception):
    """The connection or session ended before the answer came: the write was applied as a whole, or not at all.

    Only a read after a reconnect shows it; the write must not be sent again before that.
    """


class RefusedError(Exception):
    """ZooKeeper refused the write as a whole; nothing was changed.

    Attributes:
        operation: the first operation that could not be done.
        cause: kazoo's error for it.
    """

    def __init__(self, operation: Operation, cause: Exception):
        super().__init__(f"{operation}: {type(cause).__name__}")
        self.operation = operation
        self.cause = cause


def first_refusal(operations: Sequence[Operation], results: Sequence[Any]) -> RefusedError | None:
    """Return the refusal that a multi's results hold, None when it was applied.

    Operations before the one at fault carry RolledBackError, those after it RuntimeInconsistency
    (KeeperException.java).
    """
    from kazoo.exceptions import RolledBackError, RuntimeInconsistency

    failed = [(o, r) for o, r in zip(operations, results, strict=True) if isinstance(r, Exception)]
    for operation, error in failed:
        if not isinstance(error, RolledBackError | RuntimeInconsistency):
            return RefusedError(operation, error)
    return RefusedError(*failed[0]) if failed else None
