"""What the direct lane asks of a Spark session, on processes of our own: one executor process per slot.

An executor is what Spark's reused Python worker is: a process that gets pickled functions, keeps its producers between
batches, and goes on with the task in hand when the driver that sent it is killed. It ends as its driver's socket does.
"""

from __future__ import annotations

import os
import pickle
import socket
import struct
import sys
import traceback
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from tests.direct_engine import DirectEngine, Task

_LENGTH = struct.Struct(">q")


class ExecutorLostError(Exception):
    """An executor ended in the middle of a task, as Spark says when a Python worker exits."""


class Executors:
    """Processes that run tasks; made before the driver starts any thread."""

    def __init__(self, count: int, at_start: Callable[[int], None] = lambda _number: None):
        """Fork them.

        Args:
            count: number of executors.
            at_start: called in each with its number before the first task.
        """
        self.pids: list[int] = []
        self._sockets: list[socket.socket] = []
        for number in range(count):
            ours, theirs = socket.socketpair()
            pid = os.fork()
            if pid == 0:
                ours.close()
                for other in self._sockets:
                    other.close()
                _serve(theirs, number, at_start)
            theirs.close()
            self._sockets.append(ours)
            self.pids.append(pid)

    def run(self, function: bytes, number: int) -> list[dict[str, Any]]:
        """Run a pickled mapInArrow function over one number in the executor of that number; return its rows."""
        import pyarrow as pa

        link = self._sockets[number % len(self._sockets)]
        try:
            _send(link, pickle.dumps((function, number)))
            ok, answer = pickle.loads(_receive(link))
        except (EOFError, OSError) as error:
            raise ExecutorLostError(f"the executor of slot {number} is gone") from error
        if not ok:
            raise ExecutorLostError(f"task of slot {number} failed:\n{answer}")
        return [row for data in answer for row in pa.ipc.open_stream(data).read_all().to_pylist()]


class Engine(DirectEngine):
    """Runs the task of each slot in that slot's executor, all at once."""

    def __init__(self, executors: Executors):
        self._executors = executors

    def run(self, task: Task, numbers: range) -> list[dict[str, Any]]:
        from pyspark import cloudpickle

        function = cloudpickle.dumps(task)
        with ThreadPoolExecutor(len(numbers)) as pool:
            found = list(pool.map(lambda number: self._executors.run(function, number), numbers))
        return [row for rows in found for row in rows]


def _serve(link: socket.socket, number: int, at_start: Callable[[int], None]) -> None:
    """Run tasks until the driver is gone; never returns."""
    import pyarrow as pa

    try:
        at_start(number)
        while True:
            function, slot = pickle.loads(_receive(link))
            try:
                run = pickle.loads(function)
                data = []
                for batch in run([pa.RecordBatch.from_pydict({"id": [slot]})]):
                    sink = pa.BufferOutputStream()
                    with pa.ipc.new_stream(sink, batch.schema) as stream:
                        stream.write_batch(batch)
                    data.append(sink.getvalue().to_pybytes())
                answer: tuple[bool, Any] = (True, data)
            except Exception:  # noqa: BLE001 - sent to the driver
                answer = (False, traceback.format_exc())
            _send(link, pickle.dumps(answer))
    except (EOFError, OSError):
        os._exit(0)
    except BaseException:  # noqa: BLE001
        traceback.print_exc()
        sys.stderr.flush()
        os._exit(1)


def _send(link: socket.socket, data: bytes) -> None:
    link.sendall(_LENGTH.pack(len(data)) + data)


def _receive(link: socket.socket) -> bytes:
    (length,) = _LENGTH.unpack(_exactly(link, _LENGTH.size))
    return _exactly(link, length)


def _exactly(link: socket.socket, count: int) -> bytes:
    data = bytearray()
    while len(data) < count:
        part = link.recv(count - len(data))
        if not part:
            raise EOFError
        data += part
    return bytes(data)
