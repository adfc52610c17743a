"""Walk over raw events: framing, checksums, positions, transactions and table bindings, without leaving machine code.

The kernel stops at what it cannot settle itself (a new TABLE_MAP, a statement, an unsupported event, a fault); the
caller settles that event and calls again. Everything that lasts between calls lies in `state` and in the arrays.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from numba import njit

from databus.binlog.kernels.crc import crc32
from databus.binlog.kernels.memory import KERNEL, Bytes, Ints, little_endian, load_i64, load_u16, load_u32

# Why the walk stopped.
(
    DONE,
    ASK,
    BAD_SIZE,
    BAD_CRC,
    BAD_POSITION,
    UNBOUND_ROWS,
    NESTED,
    NO_TRANSACTION,
    TOO_SHORT,
    NOT_ONE,
    UNVERIFIED,
    NOT_BETWEEN,
    NOT_FLAGGED,
) = range(13)

# What the walk does with an event type.
(
    C_ASK,
    C_SKIP,
    C_GTID,
    C_MARIADB_GTID,
    C_QUERY,
    C_XID,
    C_TABLE_MAP,
    C_ROWS,
    C_UNPLACED,
    C_BETWEEN,
    C_FLAGGED,
) = range(11)

# Slots of `state`.
S_AT, S_SHIFT, S_EVENTS, S_TRANSACTIONS, S_PHASE, S_SIZE, S_SPLICE, S_PLAIN_END, S_EXPECTED, S_VERIFIED, S_COUNT = (
    range(11)
)

LARGE_BYTES = 32 << 20
"""The checksum of a larger event is verified by the caller, who need not hold all of it."""

# Values of S_PHASE: outside, after a GTID that awaits BEGIN or a definition statement, inside.
OUTSIDE, ANNOUNCED, INSIDE = range(3)

# Columns of `transactions`; GTID kinds.
(
    T_KIND,
    T_NUMBER,
    T_DOMAIN,
    T_COMMIT_US,
    T_SERVER,
    T_START,
    T_END,
    T_TIMESTAMP,
    T_ROW_EVENTS,
    T_UUID,
    T_UUID2,
    T_OFFSET,
    T_WIDTH,
) = range(13)
NO_GTID, MYSQL_GTID, ANONYMOUS_GTID, MARIADB_GTID, TAGGED_GTID = range(5)

# Columns of `rows` (one line per rows event) and of `bindings` (open addressing by table id).
R_AT, R_END, R_TYPE, R_SLOT, R_TRANSACTION, R_WIDTH = range(6)
B_ID, B_SLOT, B_AT, B_SIZE, B_WIDTH = range(5)

# Columns of `splices`: a compressed event, what it became in the buffer and where it lay in the raw bytes.
P_FROM, P_TO, P_RAW_FROM, P_RAW_TO, P_LOG_POS, P_TYPE, P_WIDTH = range(7)

_BEGIN = 0x4E49474542  # "BEGIN" read as a little-endian number
_COMMIT = 0x54494D4D4F43
_STANDALONE, _GROUP_COMMIT, _XA = 0x01, 0x02, 0xC0
_PAYLOAD = 40
_ARTIFICIAL, _IGNORABLE = 0x20, 0x80


@njit(**KERNEL)
def find_binding(bindings: npt.NDArray[np.int64], table_id: int) -> int:
    """Return the line that holds a table id, or the free line (B_ID −1) where it belongs."""
    mask = bindings.shape[0] - 1
    line = (table_id * 0x9E3779B1) & mask
    while bindings[line, B_ID] != -1 and bindings[line, B_ID] != table_id:
        line = (line + 1) & mask
    return line


@njit(**KERNEL)
def _same(buffer: Bytes, at: int, store: Bytes, stored_at: int, size: int) -> bool:
    k = 0
    while k + 8 <= size:
        if load_i64(buffer, at + k) != load_i64(store, stored_at + k):
            return False
        k += 8
    while k < size:
        if buffer[at + k] != store[stored_at + k]:
            return False
        k += 1
    return True


@njit(**KERNEL)
def _read_gtid(buffer: Bytes, body: int, body_end: int, line: Ints) -> None:
    """Fill a transaction's line from a GTID or ANONYMOUS_GTID body; servers since 8.0.1 add commit times (7 bytes)."""
    line[T_UUID] = load_i64(buffer, body + 1)
    line[T_UUID2] = load_i64(buffer, body + 9)
    line[T_NUMBER] = load_i64(buffer, body + 17)
    at = body + 25 + 17
    if at + 7 <= body_end and buffer[body + 25] == 2:
        stamp = little_endian(buffer, at, 7)
        if stamp >> 55 and at + 14 <= body_end:
            stamp = little_endian(buffer, at + 7, 7)
        line[T_COMMIT_US] = stamp & ((1 << 55) - 1)


@njit(**KERNEL)
def _statement(buffer: Bytes, body: int, body_end: int) -> int:
    """Return 1 for BEGIN, 2 for COMMIT, 0 for any other statement."""
    at = body + 13 + load_u16(buffer, body + 11) + np.int64(buffer[body + 8]) + 1
    if at + 5 == body_end and little_endian(buffer, at, 5) == _BEGIN:
        return 1
    if at + 6 == body_end and little_endian(buffer, at, 6) == _COMMIT:
        return 2
    return 0


@njit(**KERNEL)
def close_transaction(state: Ints, transactions: npt.NDArray[np.int64], end: int, timestamp: int, server: int) -> None:
    """End the open transaction at a file position."""
    line = transactions[state[S_TRANSACTIONS]]
    line[T_END] = end
    line[T_OFFSET] = state[S_AT] + state[S_SIZE]
    line[T_TIMESTAMP] = timestamp
    if line[T_KIND] == NO_GTID:
        line[T_SERVER] = server
    state[S_TRANSACTIONS] += 1
    transactions[state[S_TRANSACTIONS], :] = 0
    state[S_PHASE] = OUTSIDE


@njit(**KERNEL)
def _enter(splice: Ints, state: Ints, counts: Ints) -> int:
    """Begin with the events that a compressed one became; returns DONE or a fault.

    From here on file positions count so that the last of them ends where the compressed one does.
    """
    state[S_SHIFT] += splice[P_RAW_TO] - splice[P_RAW_FROM] - (splice[P_TO] - splice[P_FROM])
    state[S_PLAIN_END] = splice[P_TO]
    state[S_SPLICE] += 1
    counts[splice[P_TYPE]] += 1
    if splice[P_LOG_POS] != 0 and splice[P_LOG_POS] != ((splice[P_TO] + state[S_SHIFT]) & 0xFFFFFFFF):
        return BAD_POSITION
    if splice[P_TYPE] == _PAYLOAD:
        if state[S_PHASE] != ANNOUNCED:
            return NO_TRANSACTION if state[S_PHASE] == OUTSIDE else NESTED
        state[S_EXPECTED] = state[S_TRANSACTIONS] + 1
    return DONE


@njit(**KERNEL)
def walk(
    buffer: Bytes,
    end: int,
    checksum_bytes: int,
    classes: Bytes,
    state: Ints,
    counts: Ints,
    transactions: npt.NDArray[np.int64],
    rows: npt.NDArray[np.int64],
    bindings: npt.NDArray[np.int64],
    store: Bytes,
    splices: npt.NDArray[np.int64],
) -> int:
    """Walk from state[S_AT] until the buffer holds no further whole event, or something needs the caller.

    Args:
        buffer: raw events.
        end: bytes of the buffer that are filled.
        checksum_bytes: 4 to verify and strip a CRC32, 0 without.
        classes: C_… of each event type.
        state: S_…; S_AT + S_SHIFT is the file position.
        counts: events seen per type.
        transactions: T_… per transaction; the line at state[S_TRANSACTIONS] is the one being read.
        rows: R_… per rows event.
        bindings: B_… table id → slot of its newest TABLE_MAP; a power of two of lines, never full.
        store: bodies of the TABLE_MAP events that `bindings` points to.
        splices: P_… per compressed event; the plain events it became have no checksum, no position.

    Returns:
        Why it stopped; for all but DONE state[S_AT] is the event's offset and state[S_SIZE] its size. An event that is
        asked about has passed the checks of framing, checksum and position. At UNVERIFIED the caller checks the
        checksum of a large event and sets state[S_VERIFIED] to the offset of its last four bytes.
    """
    edge = splices[state[S_SPLICE], P_FROM] if state[S_SPLICE] < splices.shape[0] else end
    while True:
        at = state[S_AT]
        if state[S_EXPECTED] != 0 and at == state[S_PLAIN_END]:
            if state[S_PHASE] != OUTSIDE or state[S_TRANSACTIONS] != state[S_EXPECTED]:
                return NOT_ONE
            state[S_EXPECTED] = 0
        if at + 19 > end:
            return DONE
        size = load_u32(buffer, at + 9)
        state[S_SIZE] = size
        if at == edge:
            fault = _enter(splices[state[S_SPLICE]], state, counts)
            if fault != DONE:
                return fault
            edge = splices[state[S_SPLICE], P_FROM] if state[S_SPLICE] < splices.shape[0] else end
        checked = checksum_bytes if at >= state[S_PLAIN_END] else 0
        if size < 19 + checked:
            return BAD_SIZE
        if at + size > end:
            return DONE
        body = at + 19
        body_end = at + size - checked
        if checked and size > LARGE_BYTES:
            if state[S_VERIFIED] != body_end:
                return UNVERIFIED
        elif checked and crc32(buffer, at, body_end) != load_u32(buffer, body_end):
            return BAD_CRC
        kind = np.int64(buffer[at + 4])
        action = classes[kind]
        log_pos = load_u32(buffer, at + 13)
        flags = load_u16(buffer, at + 17)
        if action == C_BETWEEN and state[S_PHASE] != OUTSIDE:
            return NOT_BETWEEN
        if action == C_FLAGGED and not flags & _IGNORABLE:
            return NOT_FLAGGED
        passed_over = action == C_SKIP or action == C_BETWEEN or action == C_FLAGGED
        if action == C_UNPLACED or (flags & _ARTIFICIAL and passed_over):
            # Made up for the dump: no bytes of the file. (C_UNPLACED is a heartbeat.)
            state[S_SHIFT] -= size
            counts[kind] += 1
            state[S_AT] = at + size
            continue
        position = at + state[S_SHIFT]
        if log_pos != 0 and log_pos != ((position + size) & 0xFFFFFFFF):
            return BAD_POSITION
        line = transactions[state[S_TRANSACTIONS]]
        if action == C_ROWS:
            if body + 8 > body_end:
                return TOO_SHORT
            if state[S_PHASE] != INSIDE:
                return NO_TRANSACTION
            binding = find_binding(bindings, little_endian(buffer, body, 6))
            if bindings[binding, B_ID] == -1:
                return UNBOUND_ROWS
            row = rows[state[S_EVENTS]]
            row[R_AT] = at
            row[R_END] = body_end
            row[R_TYPE] = kind
            row[R_SLOT] = bindings[binding, B_SLOT]
            row[R_TRANSACTION] = state[S_TRANSACTIONS]
            state[S_EVENTS] += 1
            line[T_ROW_EVENTS] += 1
        elif action == C_TABLE_MAP:
            if body + 8 > body_end:
                return TOO_SHORT
            binding = find_binding(bindings, little_endian(buffer, body, 6))
            if (
                bindings[binding, B_ID] == -1
                or bindings[binding, B_SIZE] != body_end - body
                or not _same(buffer, body, store, bindings[binding, B_AT], body_end - body)
            ):
                return ASK
        elif action == C_GTID or action == C_MARIADB_GTID:
            if body + (25 if action == C_GTID else 13) > body_end:
                return TOO_SHORT
            if state[S_PHASE] != OUTSIDE:
                return NESTED
            line[T_START] = position
            line[T_SERVER] = load_u32(buffer, at + 5)
            if action == C_GTID:
                line[T_KIND] = MYSQL_GTID if kind == 33 else ANONYMOUS_GTID
                _read_gtid(buffer, body, body_end, line)
                state[S_PHASE] = ANNOUNCED
            else:
                properties = np.int64(buffer[body + 12])
                extra = body + (21 if properties & _GROUP_COMMIT else 13)
                if properties & _XA or (extra < body_end and buffer[extra]):
                    return ASK  # XA, two-phase ALTER, several engines: distinguished in Python
                line[T_KIND] = MARIADB_GTID
                line[T_NUMBER] = load_i64(buffer, body)
                line[T_DOMAIN] = load_u32(buffer, body + 8)
                state[S_PHASE] = ANNOUNCED if properties & _STANDALONE else INSIDE
        elif action == C_QUERY:
            if body + 14 > body_end:
                return TOO_SHORT
            statement = _statement(buffer, body, body_end)
            if statement == 1 and (state[S_PHASE] != INSIDE or line[T_ROW_EVENTS] == 0):
                if state[S_PHASE] == OUTSIDE:
                    line[T_START] = position
                state[S_PHASE] = INSIDE
            elif statement == 2 and state[S_PHASE] == INSIDE:
                close_transaction(state, transactions, position + size, load_u32(buffer, at), load_u32(buffer, at + 5))
            else:
                return ASK
        elif action == C_XID:
            if state[S_PHASE] != INSIDE:
                return NO_TRANSACTION
            close_transaction(state, transactions, position + size, load_u32(buffer, at), load_u32(buffer, at + 5))
        elif not passed_over:
            return ASK
        counts[kind] += 1
        state[S_AT] = at + size
