"""A link between a run and its live job: sealed messages over TCP, in order, none forged, replayed or read on the way.

The key is made for one job and travels with the job's own code through Spark, as the sinks' credentials do. Each
message is one AES-256-GCM frame whose nonce is the sender and the number of the message.
"""

from __future__ import annotations

import contextlib
import pickle
import secrets
import socket
import struct
from typing import Any

from databus.core.errors.root import DatabusError

_LENGTH = struct.Struct(">I")
_NONCE = struct.Struct(">IQ")
_LARGEST_BYTES = 256 << 20
KEY_BYTES = 32


class LinkLostError(DatabusError):
    """The other end of the link is gone, or is not who it should be."""

    code = "live_link_lost"
    retryable = True


class LiveLink:
    """Link end; used by one thread."""

    def __init__(self, connection: socket.socket, key: bytes, *, driver: bool):
        """Take over a connected socket.

        Args:
            connection: the socket.
            key: 32 secret bytes that both ends know.
            driver: which end this is.
        """
        from cryptography.hazmat.primitives.ciphers.aead import AESGCM

        self._socket, self._cipher = connection, AESGCM(key)
        self._sends, self._receives = (0, 1) if driver else (1, 0)
        self._sent = self._received = 0
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        # A host that dies says nothing: its end is found after 30 s, so that no Spark task waits for ever.
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        for option, value in (("TCP_KEEPIDLE", 15), ("TCP_KEEPINTVL", 5), ("TCP_KEEPCNT", 3)):
            if hasattr(socket, option):
                connection.setsockopt(socket.IPPROTO_TCP, getattr(socket, option), value)

    def send(self, message: Any) -> None:
        """Send a message.

        Raises:
            LinkLostError: the other end is gone.
        """
        data = self._cipher.encrypt(_NONCE.pack(self._sends, self._sent), pickle.dumps(message), None)
        self._sent += 1
        try:
            self._socket.sendall(_LENGTH.pack(len(data)) + data)
        except OSError as error:
            raise LinkLostError(f"the live job's link is lost: {error}") from error

    def receive(self, timeout_s: float | None = None) -> Any:
        """Return the next message.

        Args:
            timeout_s: longest silence; None waits for ever.

        Raises:
            LinkLostError: the other end is gone, silent, or does not know the key.
        """
        from cryptography.exceptions import InvalidTag

        try:
            self._socket.settimeout(timeout_s)
            (length,) = _LENGTH.unpack(self._exactly(_LENGTH.size))
            if length > _LARGEST_BYTES:
                raise LinkLostError(f"the live job's link is lost: a message of {length} bytes was announced")
            data = self._exactly(length)
            self._socket.settimeout(None)
            plain = self._cipher.decrypt(_NONCE.pack(self._receives, self._received), data, None)
        except OSError as error:
            raise LinkLostError(f"the live job's link is lost: {error}") from error
        except InvalidTag:
            raise LinkLostError("the live job's link is lost: a message was not sealed with its key") from None
        self._received += 1
        return pickle.loads(plain)  # noqa: S301 - sealed by our own other end

    def close(self) -> None:
        """Close the socket, also under a thread that waits in `receive`; safe to call twice."""
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()

    def _exactly(self, count: int) -> bytes:
        data = bytearray()
        while len(data) < count:
            part = self._socket.recv(count - len(data))
            if not part:
                raise LinkLostError("the live job's link is lost: the other end has closed it")
            data += part
        return bytes(data)


def new_key() -> bytes:
    """Return a key for one job."""
    return secrets.token_bytes(KEY_BYTES)
