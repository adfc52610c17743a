"""Values too large for a multi: kept in a folder by their SHA-256, with the reference in the node.

A value is durable in the folder before the multi that refers to it is sent, and is checked against its hash whenever it
is read. Each write has a file of its own, also of equal values, so a file goes with the one node that refers to it:
after the multi that let go of it, or in the sweep of a later claim.
"""

from __future__ import annotations

import hashlib
import json
import logging
import uuid
from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace

from databus.checkpoints.codec import encode
from databus.checkpoints.connection.transaction import Operation
from databus.checkpoints.durable_folder import DurableFolder
from databus.core.errors.checkpoint import CheckpointError, CheckpointFormatError
from databus.core.stored_form import Form

_log = logging.getLogger(__name__)

FOLDER = "_content"
"""Beside the flows' segments; no flow's name begins so."""

LARGE_BYTES = 56 * 1024
"""Values above this are kept outside: checkpoint, known outputs, plan and a history entry stay below the multi's bound
together."""

_KEY, _SALT = "sha256", "salt"
REFERENCE = Form("reference to a large value", "sha256 salt bytes")


class LargeValues:
    """Large values of one installation, in a folder for each flow and each sink of it that was ever behind."""

    def __init__(self, segment_store: str, installation: str):
        """Address the folders; nothing is made yet.

        Args:
            segment_store: the installation's segment store, a folder or fsspec URI that all workers reach.
            installation: name of the installation.
        """
        self._root = f"{segment_store.rstrip('/')}/{FOLDER}/{installation}"
        self._in_use: set[str] = set()

    def in_use(self, folder: str) -> bool:
        """Return whether this object met a large value of this folder: wrote, read or listed one."""
        return folder in self._in_use

    def pack(self, folder: str, operation: Operation) -> Operation:
        """Return the operation, with a reference in the place of a large value, which is in the folder then.

        Raises:
            CheckpointUnavailableError: the folder cannot be written.
        """
        if len(operation.data) <= LARGE_BYTES:
            return operation
        found, salt = hashlib.sha256(operation.data).hexdigest(), uuid.uuid4().hex[:8]
        self._folder(folder).put(_name(found, salt), operation.data)
        self._in_use.add(folder)
        stored = REFERENCE.write({_KEY: found, _SALT: salt, "bytes": len(operation.data)})
        return replace(operation, data=encode(stored))

    def unpack(self, folder: str, data: bytes) -> bytes:
        """Return a node's value, from the folder where the node holds a reference.

        Raises:
            CheckpointFormatError: the value is not there, or not what was stored.
            CheckpointUnavailableError: the folder cannot be read.
        """
        name = reference(data)
        if name is None:
            return data
        files = self._folder(folder)
        value = files.get(name)
        self._in_use.add(folder)
        found = None if value is None else hashlib.sha256(value).hexdigest()
        if value is None or found != name.partition("-")[0]:
            what = "is not there" if value is None else f"has the SHA-256 {found}"
            raise CheckpointFormatError(
                f"flow {folder}: a large value of ZooKeeper is kept as {files}/{name}, and that file {what}",
                hint="ZooKeeper and the segment store belong together: bring back the segment store of the same time, "
                "at the place that DATABUS_SEGMENT_STORE names on every worker.",
            )
        return value

    def drop(self, folder: str, nodes: Iterable[bytes]) -> None:
        """Delete the values that these contents of nodes, which no node has any more, refer to.

        What cannot be deleted is swept later.
        """
        try:
            for name in {reference(data) for data in nodes} - {None}:
                self._folder(folder).delete(str(name))
        except CheckpointError as error:
            _log.warning("flow %s: large values stay until the next claim: %s", folder, error)

    def names(self, folder: str) -> Sequence[str]:
        """Return the names of all values that are kept in a folder."""
        found = self._folder(folder).names()
        if found:
            self._in_use.add(folder)
        return found

    def sweep(self, folder: str, names: Collection[str], nodes: Iterable[bytes]) -> None:
        """Delete those of the named values that no node refers to.

        Args:
            folder: name of the folder.
            names: what was there before the claim: the multi of whoever wrote that is applied, or refused for good.
            nodes: contents of all nodes that refer to this folder, read after the claim.
        """
        used = {reference(data) for data in nodes}
        files = self._folder(folder)
        for name in names:
            if name not in used:
                files.delete(name)
                _log.info("flow %s: %s/%s is referred to by no node any more: deleted", folder, files, name)

    def _folder(self, folder: str) -> DurableFolder:
        return DurableFolder(f"{self._root}/{folder}")


def reference(data: bytes) -> str | None:
    """Return the name of the value that a node's content refers to, None where the content is the value itself.

    Raises:
        CheckpointFormatError: a reference of a version that this databus does not know.
    """
    if len(data) > 200 or f'"{_KEY}"'.encode() not in data:
        return None
    try:
        found = json.loads(data)
    except ValueError:
        return None
    if not isinstance(found, dict) or not {_KEY, _SALT} <= found.keys():
        return None
    REFERENCE.read(found)
    return _name(str(found[_KEY]), str(found[_SALT]))


def _name(sha256: str, salt: str) -> str:
    return f"{sha256}-{salt}"
