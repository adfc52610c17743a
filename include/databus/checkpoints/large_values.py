"""Values too large for a multi: kept in a folder by their SHA-256, with the reference in the node.

A value is durable in the folder before the multi that refers to it is sent, and is checked against its hash whenever it
is read. What no node refers to any more is deleted after the commit that let go of it, and swept at each claim.
"""

from __future__ import annotations

import hashlib
import json
import logging
from collections.abc import Iterable, Sequence
from dataclasses import replace

from databus.checkpoints.codec import encode
from databus.checkpoints.durable_folder import DurableFolder
from databus.checkpoints.transaction import Operation
from databus.core.errors import CheckpointError, CheckpointFormatError
from databus.core.stored_json import FORMAT_VERSION

_log = logging.getLogger(__name__)

FOLDER = "_content"
"""Beside the flows' segments; no flow's name begins so."""

LARGE_BYTES = 64 * 1024
"""Values above this are kept outside: checkpoint, plan and a history entry together stay below the multi's bound."""

_KEY = "sha256"


class LargeValues:
    """Large values of all flows of one installation."""

    def __init__(self, segment_store: str, installation: str):
        """Address the folder; nothing is made yet.

        Args:
            segment_store: the installation's segment store, a folder or fsspec URI that all workers reach.
            installation: name of the installation.
        """
        self._root = f"{segment_store.rstrip('/')}/{FOLDER}/{installation}"
        self._in_use: set[str] = set()

    def in_use(self, flow: str) -> bool:
        """Tell whether a large value of the flow was written or read by this object."""
        return flow in self._in_use

    def pack(self, flow: str, operations: Iterable[Operation]) -> list[Operation]:
        """Return the operations with large values replaced by references; the values are in the folder then.

        Raises:
            CheckpointUnavailableError: the folder cannot be written.
        """
        return [self._packed(flow, o) if len(o.data) > LARGE_BYTES else o for o in operations]

    def unpack(self, flow: str, data: bytes) -> bytes:
        """Return a node's value, from the folder where the node holds a reference.

        Raises:
            CheckpointFormatError: the value is not there, or not what was stored.
            CheckpointUnavailableError: the folder cannot be read.
        """
        name = reference(data)
        if name is None:
            return data
        folder = self._folder(flow)
        value = folder.get(name)
        self._in_use.add(flow)
        found = None if value is None else hashlib.sha256(value).hexdigest()
        if value is None or found != name:
            what = "is not there" if value is None else f"has the SHA-256 {found}"
            raise CheckpointFormatError(
                f"flow {flow}: a large value of ZooKeeper is kept as {folder}/{name}, and that file {what}",
                hint="ZooKeeper and the segment store belong together: bring back the segment store of the same time, "
                "at the place that DATABUS_SEGMENT_STORE names on every worker.",
            )
        return value

    def drop(self, flow: str, nodes: Iterable[bytes | None]) -> None:
        """Delete the values that these former contents of nodes refer to; what cannot be deleted is swept later."""
        names = [name for data in nodes if data is not None and (name := reference(data)) is not None]
        try:
            for name in names:
                self._folder(flow).delete(name)
        except CheckpointError as error:
            _log.warning("flow %s: large values stay until the next claim: %s", flow, error)

    def names(self, flow: str) -> Sequence[str]:
        """Return the names of all values that are kept for a flow."""
        return self._folder(flow).names()

    def sweep(self, flow: str, nodes: Iterable[bytes]) -> None:
        """Delete the values that none of these nodes, all of the flow's, refers to; only under the flow's lease."""
        used = {reference(data) for data in nodes}
        folder = self._folder(flow)
        for name in folder.names():
            if name not in used:
                folder.delete(name)
                _log.info("flow %s: %s/%s is referred to by no node any more: deleted", flow, folder, name)

    def _packed(self, flow: str, operation: Operation) -> Operation:
        name = hashlib.sha256(operation.data).hexdigest()
        self._folder(flow).put(name, operation.data)
        self._in_use.add(flow)
        stored = encode({"v": FORMAT_VERSION, _KEY: name, "bytes": len(operation.data)})
        return replace(operation, data=stored)

    def _folder(self, flow: str) -> DurableFolder:
        return DurableFolder(f"{self._root}/{flow}")


def reference(data: bytes) -> str | None:
    """Return the name of the value that a node's content refers to, None where the content is the value itself."""
    if len(data) > 200 or f'"{_KEY}"'.encode() not in data:
        return None
    try:
        found = json.loads(data)
    except ValueError:
        return None
    name = found.get(_KEY) if isinstance(found, dict) and set(found) == {"v", _KEY, "bytes"} else None
    return name if isinstance(name, str) else None
