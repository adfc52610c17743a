"""A checkpoint as it is stored: what it knows of outputs lies in a node beside it, written only where that changes.

It is 67 bytes for each topic that was ever written to, which no commit is to write again. Both nodes are written by the
same multi, so neither is ever ahead of the other; the checkpoint names the digest of what goes with it, by which a
reader sees that it has read one as of before a commit and the other as of after it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from databus.checkpoints.codec import decode_as, encode
from databus.core.errors.checkpoint import CheckpointFormatError
from databus.core.state.checkpoint import CHECKPOINT, OUTPUTS_DIGEST, Checkpoint
from databus.core.stored_form import VERSION, Form

KNOWN_OUTPUTS = Form("known outputs", "output_ids output_names")

HISTORY_NUMBER = "history"


@dataclass(frozen=True)
class StoredCheckpoint:
    """The bytes of a checkpoint.

    Attributes:
        content: of the checkpoint's node, with the number of the history entry that goes with it.
        outputs: of the node of its outputs, None where it knows of none.
        named: by what it names them: the first 16 hex digits of their SHA-256, "" for none.
    """

    content: bytes
    outputs: bytes | None
    named: str

    @classmethod
    def of(cls, checkpoint: Checkpoint, history_number: int) -> StoredCheckpoint:
        """Return the stored form of a checkpoint."""
        known = {name: value for name, value in checkpoint.outputs_json().items() if value}
        outputs = encode(KNOWN_OUTPUTS.write(known)) if known else None
        return cls.beside(outputs, digest(outputs), checkpoint, history_number)

    @classmethod
    def beside(cls, outputs: bytes | None, named: str, checkpoint: Checkpoint, number: int) -> StoredCheckpoint:
        """Return the stored form of a checkpoint that knows what is stored in `outputs`, and names it so."""
        bare = replace(checkpoint, output_ids={}, output_names={}).to_json()
        fields = {name: value for name, value in bare.items() if name != VERSION}
        more = {OUTPUTS_DIGEST: named} if named else {}
        return cls(encode(CHECKPOINT.write({**fields, **more, HISTORY_NUMBER: number})), outputs, named)


def digest(outputs: bytes | None) -> str:
    """Return by what a checkpoint names these outputs, "" for none."""
    return hashlib.sha256(outputs).hexdigest()[:16] if outputs is not None else ""


def named_digest(stored: Mapping[str, Any]) -> str:
    """Return the digest that a stored checkpoint names, "" where it names none or holds its outputs itself."""
    return str(stored.get(OUTPUTS_DIGEST, ""))


def restored(stored: Mapping[str, Any], outputs: bytes | None) -> Checkpoint:
    """Return a checkpoint from the JSON of its node and the content of the node of its outputs.

    Raises:
        CheckpointFormatError: another version, not a checkpoint, or these are not its outputs.
    """
    named = named_digest(stored)
    if not named:
        return Checkpoint.from_json(stored)
    if outputs is None or digest(outputs) != named:
        found = "are not there" if outputs is None else f"have the digest {digest(outputs)}"
        raise CheckpointFormatError(
            f"the outputs that were written to (node `outputs` beside it) must have the digest {named}, and {found}",
            hint="The two are written at once: ZooKeeper was brought back in parts, or edited by hand. Bring back both "
            "nodes as of the same time, and the segment store with them.",
        )
    known = decode_as(outputs, "known outputs", KNOWN_OUTPUTS.read)
    return Checkpoint.from_json({**{name: v for name, v in stored.items() if name != OUTPUTS_DIGEST}, **known})
