"""Handle of a producer: librdkafka's own pointer behind confluent-kafka's object, for compiled code that produces.

The client keeps the pointer first in its object and does not hand it out. It is taken only where what it points at
proves to be that producer; everywhere else there is no handle, and records go through the client (ADR 87).
"""

from __future__ import annotations

import ctypes
import os
from functools import cache
from typing import Any, NamedTuple

import confluent_kafka.cimpl
from confluent_kafka import Producer

QUEUE_FULL = -184
"""RD_KAFKA_RESP_ERR__QUEUE_FULL."""

_NAME = b"#producer-"
_LOOKED_AT = 16_384
"""Bytes of a client's state in which its name stands: librdkafka has it among the first."""


class _Functions(NamedTuple):
    produceva: int
    name: Any
    error_code: Any
    error_destroy: Any


class ProducerHandle(NamedTuple):
    """Addresses that compiled code calls librdkafka with; they hold until the producer is closed.

    Attributes:
        producer: the `rd_kafka_t`.
        produceva: the function `rd_kafka_produceva`, which may be called without the GIL.
    """

    producer: int
    produceva: int


def handle_of(producer: Any) -> ProducerHandle | None:
    """Return a producer's handle; None where it is no open confluent-kafka producer, or not known for sure."""
    functions = _functions() if isinstance(producer, Producer) else None
    if functions is None:
        return None
    pointer = ctypes.c_void_p.from_address(id(producer) + object.__basicsize__).value
    if not pointer or not _names_itself(pointer, functions):
        return None
    return ProducerHandle(pointer, functions.produceva)


def code_of(error: int) -> int:
    """Return the code of an `rd_kafka_error_t`, and let go of it."""
    functions = _functions()
    if functions is None:  # nobody called librdkafka then
        raise RuntimeError("librdkafka's functions are not at hand")
    code = int(functions.error_code(error))
    functions.error_destroy(error)
    return code


@cache
def _functions() -> _Functions | None:
    """Return librdkafka's functions from the library that the client itself has loaded; None where it shows none."""
    try:
        library = ctypes.CDLL(confluent_kafka.cimpl.__file__)
        produceva, name = library.rd_kafka_produceva, library.rd_kafka_name
        error_code, error_destroy = library.rd_kafka_error_code, library.rd_kafka_error_destroy
    except (AttributeError, OSError, TypeError):
        return None
    name.argtypes, name.restype = [ctypes.c_void_p], ctypes.c_char_p
    error_code.argtypes, error_code.restype = [ctypes.c_void_p], ctypes.c_int
    error_destroy.argtypes, error_destroy.restype = [ctypes.c_void_p], None
    return _Functions(int(ctypes.cast(produceva, ctypes.c_void_p).value or 0), name, error_code, error_destroy)


def _names_itself(pointer: int, functions: _Functions) -> bool:
    """Return whether the memory at a pointer is that of a producer: its name stands there, as librdkafka tells it.

    The kernel reads it for us, so that an address that is none is an error and no crash.
    """
    try:
        memory = os.open("/proc/self/mem", os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        state = os.pread(memory, _LOOKED_AT, pointer)
    except OSError:
        return False
    finally:
        os.close(memory)
    if _NAME not in state:
        return False
    name = functions.name(pointer)
    return bool(name) and name in state
