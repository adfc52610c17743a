"""Connection to a Redis server: TLS, login, questions with one line as answer, and what the server's errors mean.

TLS options in a connection's `extra` have the names of Airflow's Redis provider: `ssl` (true), `ssl_ca_certs`,
`ssl_certfile`, `ssl_keyfile`, `ssl_keyfile_password`, `ssl_cert_reqs` ("required", "none"), `ssl_check_hostname`;
beside them `socket_connect_timeout` (10) and `socket_timeout` (60), in seconds.
"""

from __future__ import annotations

import contextlib
import select
import socket
import ssl
import threading
from collections.abc import Callable
from functools import partial
from typing import Any, TypeVar

from databus.core.connections import Connection
from databus.core.errors.redis import RedisStreamError
from databus.core.errors.root import DatabusError
from databus.core.errors.source import SourceAccessError, SourceError, SourceSettingError, SourceUnavailableError
from databus.redis.byte_reader import ByteReader
from databus.tls import CLIENT_REFUSED, FAILED, TLS_REQUIRED, Handshake, TlsFault, TlsFiles, fault_of, handshake

DEFAULT_PORT = 6379
CONNECT_TIMEOUT_S = 10.0
SILENCE_S = 60.0
"""A server that says nothing for so long is gone: it pings its replicas each ten seconds by default."""

_MOST_LINE = 4096
_ACCESS = ("NOAUTH", "WRONGPASS", "NOPERM", "DENIED")
_LATER = ("LOADING", "NOMASTERLINK", "MASTERDOWN", "BUSY")
Result = TypeVar("Result")

_ACL_HINT = "On the server: ACL SETUSER NAME on >PASSWORD +psync +replconf. The login and password of the connection."


class Link:
    """Link to a Redis server. Reads are of one thread; `send` may be called from another.

    Attributes:
        name: host and port, for messages.
        reader: what the server sends.
    """

    def __init__(self, connection: Connection):
        """Connect and log in.

        Raises:
            SourceUnavailableError: nobody answers.
            SourceAccessError: the server refuses the login.
            ConfigError: the TLS options cannot be used.
        """
        host, port = connection.host or "localhost", connection.port or DEFAULT_PORT
        self.name = f"{connection.conn_id}: Redis {host}:{port}"
        self._connection = connection
        self._sending = threading.Lock()
        self._calling = threading.Lock()
        self._probing = threading.Lock()
        self._probed: Handshake | None = None
        self._closed = False
        self._silence_s = float(connection.extra.get("socket_timeout") or SILENCE_S)
        tls = tls_files(connection)
        self._socket = self._connect(host, port, tls)
        self.reader = ByteReader(self._receive, self.name, cut=self._ended)
        try:
            if password := connection.password.get_secret_value():
                login = (connection.login,) if connection.login else ()
                self.ask("AUTH", *login, password)
        except BaseException:
            self.close()
            raise

    def send(self, *words: str) -> None:
        """Send a command; what it is answered is another call's.

        Raises:
            SourceUnavailableError: the connection has ended.
        """
        encoded = [word.encode() for word in words]
        data = b"*%d\r\n" % len(encoded) + b"".join(b"$%d\r\n%b\r\n" % (len(word), word) for word in encoded)
        try:
            with self._sending:
                while data:
                    data = data[self._waiting(select.POLLOUT, partial(self._socket.send, data)) :]
        except (OSError, ValueError) as error:
            raise self._hung_up(error) from None

    def ask(self, *words: str) -> str:
        """Send a command and return its answer, a simple string without its mark.

        Raises:
            SourceError: the server answers with an error; which kind, its first word says.
            RedisStreamError: the answer is of another form.
        """
        self.send(*words)
        return self.answer(words[0])

    def answer(self, asked: str) -> str:
        """Return the next answer; empty lines before it say that the server is still there."""
        while not (line := self.line()):
            pass
        mark, text = line[:1], line[1:].decode("utf-8", "backslashreplace")
        if mark == b"-":
            raise self._refused(asked, text)
        if mark != b"+":
            raise RedisStreamError(f"{self.name} answers {asked} with {line[:40]!r}")
        return text

    def line(self) -> bytes:
        """Return the next line without its end, which may be LF alone as in the server's signs of life."""
        found = bytearray()
        while not found.endswith(b"\n"):
            if len(found) > _MOST_LINE:
                raise RedisStreamError(f"{self.name} answers with {bytes(found[:40])!r}… and no end of line")
            found.append(self.reader.byte())
            if found == b"\x15\x03":
                raise self._tls(TLS_REQUIRED, "it answers with a TLS alert")
        return bytes(found).rstrip(b"\r\n")

    def close(self) -> None:
        """Close the connection; another thread's read of it ends. Safe to call twice."""
        self._closed = True
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()

    def _connect(self, host: str, port: int, tls: TlsFiles | None) -> socket.socket:
        self._tls_context = context = tls.context(self._connection.conn_id) if tls else None
        try:
            timeout_s = float(self._connection.extra.get("socket_connect_timeout") or CONNECT_TIMEOUT_S)
            plain = socket.create_connection((host, port), timeout=timeout_s)
        except OSError as error:
            raise self._not_there(error) from None
        try:
            found = plain if context is None else context.wrap_socket(plain, server_hostname=host)
            found.setblocking(False)
        except ssl.SSLError as error:
            plain.close()
            raise self._tls(fault_of(error) or FAILED, str(error)) from None
        except TimeoutError:
            plain.close()
            raise SourceUnavailableError(
                f"{self.name} does not answer the TLS handshake within {timeout_s:g} s",
                hint="Use the server's TLS port (tls-port), or leave `ssl` out of the connection's extra.",
            ) from None
        except OSError as error:
            plain.close()
            raise self._not_there(error) from None
        return found

    def _receive(self, count: int) -> bytes:
        try:
            return self._waiting(select.POLLIN, partial(self._socket.recv, count))
        except ssl.SSLEOFError as error:
            raise self._hung_up(error) from None
        except ssl.SSLError as error:
            fault = fault_of(error) or FAILED
            shows = bool(self._connection.extra.get("ssl_certfile"))
            raise self._tls(CLIENT_REFUSED if fault is FAILED and shows else fault, str(error)) from None
        except (OSError, ValueError) as error:
            raise self._not_there(error) from None

    def _waiting(self, wanted: int, call: Callable[[], Result]) -> Result:
        """Return what a call on the socket gives, waiting until it can be done; `wanted` is what poll(2) waits for.

        OpenSSL takes one call at a time on a connection: they take turns, and nobody waits inside of one.

        Raises:
            TimeoutError: it cannot for as long as a server may be silent.
        """
        while True:
            with self._calling:
                try:
                    return call()
                except ssl.SSLWantWriteError:
                    wanted = select.POLLOUT
                except ssl.SSLWantReadError:
                    wanted = select.POLLIN
                except BlockingIOError:
                    pass
            poll = select.poll()
            poll.register(self._socket, wanted)
            if not poll.poll(self._silence_s * 1000):
                raise TimeoutError

    def _ended(self, message: str) -> DatabusError:
        return SourceUnavailableError(
            f"{message}: {'closed by its reader' if self._closed else 'the server ended the connection'}",
            hint="Connect again at the last place, while repl-backlog-size reaches back to it. Behind a long pause "
            "or snapshot see client-output-buffer-limit replica.",
        )

    def _hung_up(self, error: Exception) -> DatabusError:
        """Return why a connection broke: a server that refuses the client's certificate may hang up without a word.

        Only another handshake shows it; the first thread that meets the end makes one, for all calls behind it.
        """
        if self._tls_context is not None and not self._closed:
            with self._probing:
                if self._probed is None and isinstance(error, (ssl.SSLEOFError, ConnectionError)):
                    self._probed = self._another_handshake(self._tls_context)
            if self._probed is not None and self._probed.fault is not None:
                return self._tls(self._probed.fault, self._probed.detail)
        return self._not_there(error)

    def _another_handshake(self, context: ssl.SSLContext) -> Handshake:
        host, port = self._connection.host or "localhost", self._connection.port or DEFAULT_PORT
        try:
            return handshake(host, port, context)
        except OSError:  # it says nothing about TLS
            return Handshake()

    def _not_there(self, error: Exception) -> SourceUnavailableError:
        text = f"it said nothing for {self._silence_s:g} s" if isinstance(error, TimeoutError) else str(error)
        return SourceUnavailableError(
            f"{self.name}: {'closed by its reader' if self._closed else text}",
            hint="Check that the server runs and is reachable from here; then connect again.",
        )

    def _tls(self, fault: TlsFault, detail: str) -> SourceAccessError:
        hint = fault.hint.format(ca="ssl_ca_certs", cert="ssl_certfile and ssl_keyfile")
        return SourceAccessError(f"{self.name}: {fault.what} ({detail})", hint=hint, code=fault.code)

    def _refused(self, asked: str, text: str) -> SourceError:
        message = f"{self.name} refuses {asked}: {self._connection.redacted(text)}"
        word = text.partition(" ")[0]
        if word in _ACCESS or "AUTH" in text:
            return SourceAccessError(message, hint=_ACL_HINT)
        if word in _LATER:
            return SourceUnavailableError(message, hint="The server is not ready: connect again in a while.")
        if "unknown command" in text.lower():
            return SourceSettingError(
                message, hint="Redis from 4.0 on has PSYNC as it is used here; services may hide it."
            )
        return SourceError(message, hint="The server's words say why.")


def tls_files(connection: Connection) -> TlsFiles | None:
    """Return what the TLS options of a connection name; None where it asks for no TLS."""
    extra: dict[str, Any] = dict(connection.extra)
    if not extra.get("ssl"):
        return None
    return TlsFiles(
        ca=str(extra.get("ssl_ca_certs") or ""),
        certificate=str(extra.get("ssl_certfile") or ""),
        key=str(extra.get("ssl_keyfile") or ""),
        key_password=str(extra.get("ssl_keyfile_password") or ""),
        verify=str(extra.get("ssl_cert_reqs") or "required") != "none",
        check_host=bool(extra.get("ssl_check_hostname", True)),
    )
