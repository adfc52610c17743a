"""Nodes of ZooKeeper that a test harms for a while."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any


@contextmanager
def edited(zookeeper: Any, path: str, change: Callable[[dict[str, Any]], Any]) -> Iterator[None]:
    """Change a node's JSON for the length of the block."""
    before = zookeeper.get(path)[0]
    value = json.loads(before)
    change(value)
    zookeeper.set(path, json.dumps(value).encode())
    try:
        yield
    finally:
        zookeeper.set(path, before)
