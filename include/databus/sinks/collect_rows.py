"""Row collection from Spark's Python workers into the control process on the same machine.

The sinks `memory` and `console` use it. A worker sends one message per slot and waits for the answer; messages are
JSON bytes over a loopback socket with a random key (multiprocessing.connection, HMAC), never pickles.
"""

from __future__ import annotations

import contextlib
import json
import logging
import secrets
import socket
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from multiprocessing import AuthenticationError
from multiprocessing.connection import Client, Connection, Listener
from typing import Any

from pydantic import SecretStr

from databus.core.errors.sink import SinkUnavailableError

log = logging.getLogger(__name__)

Deliver = Callable[[int, int, list[dict[str, Any]]], None]
"""Takes (batch, slot, records) in the control process."""


@dataclass(frozen=True)
class Address:
    """Delivery address for a worker's rows; picklable.

    Attributes:
        port: loopback port of the control process.
        key: hex of the key both sides must know.
    """

    port: int
    key: SecretStr

    def send(self, batch: int, slot: int, records: Sequence[dict[str, Any]]) -> None:
        """Deliver the records of one slot; returns after they were taken over.

        Raises:
            SinkUnavailableError: the control process is gone or on another machine.
        """
        message = json.dumps({"batch": batch, "slot": slot, "records": list(records)}).encode()
        try:
            with Client(("127.0.0.1", self.port), authkey=bytes.fromhex(self.key.get_secret_value())) as connection:
                connection.send_bytes(message)
                connection.recv_bytes()
        except (OSError, EOFError, AuthenticationError) as error:
            raise SinkUnavailableError(
                f"the process that runs the flow does not answer at 127.0.0.1:{self.port}: {error}",
                hint="The sinks memory and console serve flows whose Spark workers run on the same machine only.",
            ) from error


class Mailbox:
    """Listens on a loopback port until closed."""

    def __init__(self, deliver: Deliver):
        key = secrets.token_bytes(32)
        self._deliver = deliver
        self._listener = Listener(("127.0.0.1", 0), authkey=key)
        self.address = Address(self._listener.address[1], SecretStr(key.hex()))
        self._closed = False
        self._thread = threading.Thread(target=self._serve, name="databus-mailbox", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Stop listening; safe to call twice."""
        if self._closed:
            return
        self._closed = True
        # accept() is not woken by closing the listener: a last visitor wakes it. It must not wait for an answer, since
        # the thread may have ended already.
        with contextlib.suppress(OSError):
            socket.create_connection(("127.0.0.1", self.address.port), timeout=1).close()
        self._thread.join(timeout=5)
        self._listener.close()

    def _serve(self) -> None:
        while not self._closed:
            try:
                with self._listener.accept() as connection:
                    self._take(connection)
            except (OSError, EOFError, AuthenticationError, ValueError) as error:
                log.debug("mailbox refused a visitor: %s", error)

    def _take(self, connection: Connection) -> None:
        if self._closed:
            return
        message = json.loads(connection.recv_bytes())
        self._deliver(message["batch"], message["slot"], message["records"])
        connection.send_bytes(b"taken")
