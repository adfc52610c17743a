"""A prepared SELECT on a server connection, whose rows arrive in bulk and in the binary protocol.

Wire format: MySQL 8.0 source documentation, "COM_STMT_PREPARE", "COM_STMT_EXECUTE", "Column Definition", "ERR_Packet".
The socket is read beside PyMySQL's own buffer, which holds nothing once the answer to its last command was read.
"""

from __future__ import annotations

import struct

import numpy as np
import numpy.typing as npt

from databus.binlog.kernels.result_rows import MAX_PACKET
from databus.binlog.server.wire import ServerConnection, server_error
from databus.core.errors.source import SourceError, SourceUnavailableError

RECEIVE_BYTES = 1 << 20
"""Size of the receive buffer at first; it grows to the largest packet, 16 MiB at most."""

SILENT_S = 300.0
"""Time limit in seconds for the server to find the next row."""

_PREPARE, _EXECUTE, _CLOSE = 0x16, 0x17, 0x19
_ERROR, _END = 0xFF, 0xFE
_HEADER = 4


class PreparedSelect:
    """Prepared SELECT under way: its columns' types are known, its rows come by `receive`.

    Attributes:
        types: the server's type number of each column.
        buffer: uint8 array with what has arrived.
        at: offset in it of the first packet that was not taken.
        end: bytes of it that are filled.
    """

    def __init__(self, opened: ServerConnection, sql: str, what: str):
        """Prepare the statement and let it run.

        Args:
            opened: a connection without an answer under way.
            sql: the statement, without parameters.
            what: what is read, for messages.

        Raises:
            SourceError: the server refuses it, in the classes of `server_error`.
            SourceUnavailableError: the connection is lost.
        """
        self._opened, self._where = opened, f"{opened.conn_id} ({opened.place}), {what}"
        self.buffer = np.empty(RECEIVE_BYTES, np.uint8)
        self.at = self.end = 0
        self._socket = opened.send_command(bytes([_PREPARE]) + sql.encode())
        self._former_timeout = self._socket.gettimeout()
        self._socket.settimeout(SILENT_S)
        prepared = self._packet()
        self._statement, columns, parameters = struct.unpack_from("<IHH", prepared, 1)
        self._definitions(parameters)
        self._definitions(columns)
        if parameters or not columns:
            raise SourceError(f"{self._where}: no SELECT, or one with a parameter (a ? outside of texts): {sql[:500]}")
        opened.send_command(struct.pack("<BIBI", _EXECUTE, self._statement, 0, 1))
        answered = self._packet()[0]
        count = columns if answered > 250 else answered
        self.types = tuple(definition[-6] for definition in self._definitions(count))

    def receive(self) -> None:
        """Wait for bytes and append them to the buffer, which is moved together, or enlarged for a large packet.

        Raises:
            SourceUnavailableError: the connection is lost, or the server silent for SILENT_S.
        """
        rest = self.end - self.at
        if self.at:
            self.buffer[:rest] = self.buffer[self.at : self.end].copy()
            self.at, self.end = 0, rest
        if self.end == len(self.buffer):
            larger = np.empty(2 * len(self.buffer), np.uint8)
            larger[: self.end] = self.buffer
            self.buffer = larger
        self.end += self._receive_into(self.buffer[self.end :].data)

    def row_in_several_packets(self) -> npt.NDArray[np.uint8]:
        """Take a row of 16 MiB or more and return it without the packets' headers.

        Raises:
            SourceUnavailableError: the connection is lost.
        """
        whole, filled = np.empty(2 * MAX_PACKET, np.uint8), 0
        length = MAX_PACKET
        while length == MAX_PACKET:
            while self.end - self.at < _HEADER:
                self.receive()
            length = self._length()
            if filled + length > len(whole):
                larger = np.empty(filled + max(length, filled // 2), np.uint8)
                larger[:filled] = whole[:filled]
                whole = larger
            self.at += _HEADER
            here = min(length, self.end - self.at)
            whole[filled : filled + here] = self.buffer[self.at : self.at + here]
            self.at += here
            stop = filled + length
            filled += here
            while filled < stop:
                filled += self._receive_into(whole[filled:stop].data)
        return whole[:filled]

    def error(self) -> SourceError:
        """Return the error that the packet at hand tells."""
        packet = self.buffer[self.at + _HEADER : self.at + _HEADER + self._length()].tobytes()
        if packet[:1] != bytes([_ERROR]):
            return SourceUnavailableError(
                f"{self._where}: a packet begins with {packet[:1].hex() or 'nothing'}: the answer is out of step",
                hint="A proxy between here and the server may alter the stream.",
            )
        text = packet[3:].decode("utf-8", "replace")
        code = int.from_bytes(packet[1:3], "little")
        return server_error(code, text[6:] if text.startswith("#") else text, self._where)

    def finish(self) -> None:
        """Give the statement back once its last packet is at hand; the connection may be used again."""
        self._opened.send_command(struct.pack("<BI", _CLOSE, self._statement))
        self._socket.settimeout(self._former_timeout)

    def _length(self) -> int:
        return int.from_bytes(self.buffer[self.at : self.at + 3].tobytes(), "little")

    def _packet(self) -> bytes:
        """Take a packet that is no row.

        Raises:
            SourceError: it tells an error of the server.
        """
        while self.end - self.at < _HEADER or self.end - self.at < _HEADER + self._length():
            self.receive()
        start, stop = self.at + _HEADER, self.at + _HEADER + self._length()
        packet = self.buffer[start:stop].tobytes()
        if not packet or packet[0] == _ERROR:
            raise self.error()
        self.at = stop
        return packet

    def _definitions(self, count: int) -> list[bytes]:
        """Take the definitions of parameters or columns and the packet that ends them."""
        found = [self._packet() for _ in range(count)]
        if count and self._packet()[0] != _END:
            raise SourceUnavailableError(f"{self._where}: definitions of columns do not end where they should")
        return found

    def _receive_into(self, room: memoryview) -> int:
        try:
            got = self._socket.recv_into(room)
        except TimeoutError:
            raise self._lost(f"the server was silent for {SILENT_S:.0f} s") from None
        except (OSError, ValueError) as error:
            raise self._lost(str(error)) from None
        if not got:
            raise self._lost("the server closed the connection")
        return got

    def _lost(self, why: str) -> SourceUnavailableError:
        return SourceUnavailableError(
            f"{self._where}: the answer was cut off: {why}",
            hint="Nothing was written of it; the next attempt reads anew.",
        )
