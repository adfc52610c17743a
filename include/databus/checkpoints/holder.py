"""Lease holder and epoch of a flow, as stored."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Self

from databus.checkpoints.codec import decode_as, encode
from databus.core.state.checkpoint import Epoch
from databus.core.stored_form import Form

LEASE = Form("lease", "who epoch since host pid claim run_url")
EPOCH = Form("epoch", "epoch")


@dataclass(frozen=True)
class LeaseHolder:
    """Lease holder, as stored.

    Attributes:
        who: run id and whatever else names the run.
        epoch: epoch of the claim.
        since: when it was claimed.
        host: machine of the holder.
        pid: its process.
        claim: random text that distinguishes two claims.
        run_url: address of the run's page, "" when unknown.
    """

    who: str
    epoch: Epoch
    since: datetime
    host: str
    pid: int
    claim: str
    run_url: str = ""

    def to_json(self) -> dict[str, Any]:
        """Return versioned JSON."""
        return LEASE.write(
            {
                "who": self.who,
                "epoch": self.epoch,
                "since": self.since.isoformat(),
                "host": self.host,
                "pid": self.pid,
                "claim": self.claim,
                "run_url": self.run_url,
            }
        )

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Self:
        """Read what `to_json` wrote."""
        data = LEASE.read(data)
        since = datetime.fromisoformat(data["since"])
        here = data["host"], data["pid"]
        # Older versions wrote no address.
        return cls(data["who"], Epoch(data["epoch"]), since, *here, data["claim"], data.get("run_url", ""))

    def __str__(self) -> str:
        since = self.since.isoformat(timespec="seconds")
        return f"{self.who} (epoch {self.epoch}, process {self.pid} on {self.host}) since {since}"


def read_epoch(data: bytes, flow: str) -> Epoch:
    """Read a stored epoch."""
    return decode_as(data, f"epoch of flow {flow}", lambda value: Epoch(int(EPOCH.read(value)["epoch"])))


def read_holder(data: bytes, flow: str) -> LeaseHolder:
    """Read a stored lease."""
    return decode_as(data, f"lease of flow {flow}", LeaseHolder.from_json)


def encode_epoch(epoch: int) -> bytes:
    """Return the stored form of an epoch."""
    return encode(EPOCH.write({"epoch": epoch}))
