"""Access to the service: tokens with the topics that they are for, and a rate for each client."""

from __future__ import annotations

import hashlib
import json
import time
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, Literal

from databus.core.errors.config import ConfigError
from databus.core.errors.stream import StreamAccessError, StreamFullError, StreamTokenError

Action = Literal["write", "read"]

_FIELDS = frozenset({"client", "sha256", "write", "read"})
_FORM = (
    '{"tokens": [{"client": "shop", "sha256": "…", "write": ["events.*"], "read": []}]}; the digest of a token: '
    "printf %s TOKEN | sha256sum"
)
_BEARER = "bearer "
_CLIENTS = 10_000
"""Clients whose rate is known at a time."""


@dataclass(frozen=True)
class Client:
    """Client with its patterns of topics."""

    name: str
    write: tuple[str, ...] = ("*",)
    read: tuple[str, ...] = ("*",)

    def check(self, action: Action, topic: str) -> None:
        """Refuse a topic that is not the client's.

        Raises:
            StreamAccessError: no pattern matches.
        """
        if not any(fnmatchcase(topic, pattern) for pattern in getattr(self, action)):
            raise StreamAccessError(f"the token of client {self.name} may not {action} topic {topic}")


class Tokens:
    """Tokens of clients, known by their digests alone; empty lets everybody in.

    Args:
        clients: SHA-256 of a token, in hex → its client.
    """

    def __init__(self, clients: Mapping[str, Client] | None = None):
        self._clients = dict(clients or {})

    def __bool__(self) -> bool:
        return bool(self._clients)

    @classmethod
    def of_file(cls, path: Path) -> Tokens:
        """Read a file of tokens.

        Raises:
            ConfigError: it cannot be read, or is not of the form.
        """
        try:
            entries = json.loads(path.read_text())["tokens"]
            clients = _clients(entries)
        except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
            # Without the text of the file: it may hold what should not be there.
            why = error.strerror if isinstance(error, OSError) else f"{type(error).__name__}: {str(error)[:80]}"
            raise ConfigError(f"tokens cannot be read from {path}: {why}", hint=_FORM) from None
        if not clients or any(len(digest) != 64 or set(digest) - set("0123456789abcdef") for digest in clients):
            raise ConfigError(f"{path} has no token, or one whose sha256 is none", hint=_FORM)
        return cls(clients)

    def client(self, authorization: str, peer: str) -> Client:
        """Return the client of a request.

        Args:
            authorization: header of the request; "" for none.
            peer: address that it comes from: the client's name where there are no tokens.

        Raises:
            StreamTokenError: no token, or one that is not known.
        """
        if not self._clients:
            return Client(peer)
        if not authorization.lower().startswith(_BEARER):
            raise StreamTokenError("the request has no token")
        token = authorization[len(_BEARER) :].strip()
        found = self._clients.get(hashlib.sha256(token.encode("latin-1")).hexdigest())
        if found is None:
            raise StreamTokenError("the token is not known")
        return found


class Rates:
    """Records a second of each client: a bucket that holds one second's worth.

    Args:
        per_s: records a second; 0 for no bound.
    """

    def __init__(self, per_s: float):
        self._per_s = per_s
        self._buckets: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def take(self, client: str, records: int, now_s: float | None = None) -> None:
        """Count records of a client.

        A request of more than a second's worth passes when nothing of the last second was used; what comes next waits
        the longer.

        Raises:
            StreamFullError: it has sent too many; says after how many seconds they pass.
        """
        if not self._per_s:
            return
        now, left = self._left(client, now_s)
        needed = min(float(records), self._per_s)
        if left < needed:
            error = StreamFullError(f"client {client} may send {self._per_s:g} records a second")
            error.retry_after_s = (needed - left) / self._per_s
            raise error
        self._keep(client, left - records, now)

    def note(self, client: str, records: int) -> None:
        """Count records that were read: what comes next waits the longer."""
        if self._per_s and records:
            now, left = self._left(client, None)
            self._keep(client, left - records, now)

    def _left(self, client: str, now_s: float | None) -> tuple[float, float]:
        now = time.monotonic() if now_s is None else now_s
        left, at = self._buckets.get(client, (self._per_s, now))
        return now, min(self._per_s, left + (now - at) * self._per_s)

    def _keep(self, client: str, left: float, now: float) -> None:
        self._buckets[client] = left, now
        self._buckets.move_to_end(client)
        if len(self._buckets) > _CLIENTS:
            self._buckets.popitem(last=False)


def _clients(entries: Any) -> dict[str, Client]:
    clients: dict[str, Client] = {}
    for entry in entries:
        client, digest = _client(entry), entry["sha256"].lower()
        if digest in clients:
            raise ValueError(f"{clients[digest].name} and {client.name} have one sha256")
        clients[digest] = client
    return clients


def _client(entry: Any) -> Client:
    if unknown := sorted(entry.keys() - _FIELDS):
        raise ValueError(f"unknown field {unknown[0]}")
    return Client(str(entry["client"]), _patterns(entry, "write"), _patterns(entry, "read"))


def _patterns(entry: Any, action: Action) -> tuple[str, ...]:
    given = entry.get(action, [])
    if not isinstance(given, list) or not all(isinstance(one, str) for one in given):
        raise ValueError(f"{action} is no list of texts")
    return tuple(given)
