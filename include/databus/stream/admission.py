"""Admission of requests: how many, and how many bytes of bodies and answers, are held at a time."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager

from databus.core.errors.stream import StreamFullError, StreamSlowBodyError, StreamTooLargeError
from databus.stream.options import StreamOptions


class Admission:
    """Requests and bytes that are under way; used in the event loop alone."""

    def __init__(self, options: StreamOptions):
        self._options = options
        self.requests = 0
        self.bytes = 0
        self.answers = 0

    @contextmanager
    def request(self) -> Iterator[None]:
        """Count a request while it is under way.

        Raises:
            StreamFullError: there are as many as may be.
        """
        if self.requests >= self._options.requests:
            raise StreamFullError(f"{self.requests} requests are under way")
        self.requests += 1
        try:
            yield
        finally:
            self.requests -= 1

    @contextmanager
    def body(self, length: str | None) -> Iterator[None]:
        """Set memory aside for a body while it is under way.

        Args:
            length: Content-Length; None for a body that comes in chunks, for which the most is set aside.

        Raises:
            StreamTooLargeError: it is larger than a request may be.
            StreamFullError: too much is set aside already.
        """
        size = int(length) if length is not None and length.isdigit() else self._options.batch_bytes
        if size > self._options.batch_bytes:
            raise _too_large(size, self._options.batch_bytes)
        if self.bytes + size > self._options.waiting_bytes:
            raise StreamFullError(f"bodies of {self.bytes} bytes are under way")
        self.bytes += size
        try:
            yield
        finally:
            self.bytes -= size

    def check_answers(self) -> None:
        """Refuse to read more records while clients do not take those that were read.

        Raises:
            StreamFullError: answers that are being sent hold as much as may be.
        """
        if self.answers >= self._options.waiting_bytes:
            raise StreamFullError(f"answers of {self.answers} bytes wait for the clients that asked for them")

    @contextmanager
    def answer(self, size: int) -> Iterator[None]:
        """Count the bytes of an answer while it is sent."""
        self.answers += size
        try:
            yield
        finally:
            self.answers -= size


async def read_body(chunks: AsyncIterator[bytes], options: StreamOptions, most: int = 0) -> bytes:
    """Return a body.

    Args:
        chunks: of it.
        options: of the service.
        most: bytes at most; 0 for those of a request that writes.

    Raises:
        StreamTooLargeError: more came than a request may have; the rest is not read.
        StreamSlowBodyError: it did not come in time.
    """
    parts: list[bytes] = []
    size, most = 0, most or options.batch_bytes
    try:
        async with asyncio.timeout(options.body_s):
            async for chunk in chunks:
                size += len(chunk)
                if size > most:
                    raise _too_large(size, most)
                parts.append(chunk)
    except TimeoutError:
        raise StreamSlowBodyError(
            f"{size} bytes of the body came in {options.body_s:g} s", hint="Send smaller requests, or a faster way."
        ) from None
    return parts[0] if len(parts) == 1 else b"".join(parts)


def _too_large(size: int, most: int) -> StreamTooLargeError:
    return StreamTooLargeError(
        f"the request has {size} bytes or more, the service takes {most}; nothing of it was written",
        hint="Send several requests; for one that writes records --batch-bytes may be raised.",
    )
