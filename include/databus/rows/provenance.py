"""Provenance of rows: the columns that say where a row comes from, its event id among them."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from databus.binlog.decoding.table_batch import Transactions


def provenance(
    transactions: Transactions,
    names: tuple[str, str],
    transaction: npt.NDArray[np.integer],
    ordinal: npt.NDArray[np.int64],
    part: npt.NDArray[np.int16],
) -> dict[str, pa.Array]:
    """Return the columns that say where a row comes from; `names` are the server and what event ids begin with."""
    server, prefix = names
    used, of_row = _distinct(transaction)
    gtid = transactions.gtid.take(pa.array(used))
    position = transactions.end_pos[used]
    told = gtid if transactions.heads is None else transactions.heads.take(pa.array(used))
    heads = [
        prefix + (text or f"{server}:{transactions.file}:{end}")  # a GTID names the same transaction on every server
        for text, end in zip(told.to_pylist(), position.tolist(), strict=True)
    ]
    index = pa.array(of_row)
    number = ordinal
    if transactions.first_ordinal is not None:
        number = ordinal - transactions.first_ordinal[used][of_row]
    parts = pa.array(part).cast(pa.string()) if part.any() else pa.scalar("0")
    event_id = pc.binary_join_element_wise(pa.array(heads).take(index), pa.array(number).cast(pa.string()), parts, ":")
    return {
        "log": constant(transactions.file, len(ordinal)),
        "place": pa.array(position[of_row]),
        "transaction": gtid.take(index),
        "ordinal": pa.array(ordinal),
        "part": pa.array(part),
        "event_id": event_id,
        "ts_ms": pa.array(transactions.ts_ms[used][of_row]),
        "server_id": pa.array(transactions.server_id[used][of_row]),
    }


def _distinct(numbers: npt.NDArray[np.integer]) -> tuple[npt.NDArray[np.integer], npt.NDArray[np.intp]]:
    """Return the numbers that occur, ascending, and which of them each is; those of rows in log order need no sort."""
    rises = numbers[1:] > numbers[:-1]
    if not len(numbers) or (numbers[1:] < numbers[:-1]).any():
        return np.unique(numbers, return_inverse=True)
    of = np.zeros(len(numbers), np.intp)
    np.cumsum(rises, out=of[1:])
    return numbers[np.concatenate(([True], rises))], of


def constant(value: str, n: int) -> pa.StringArray:
    """Return a column of one text."""
    return pa.repeat(pa.scalar(value), n)
