"""Read: a planned range becomes the one DataFrame shape, decoded on Spark's executors."""

from __future__ import annotations

import base64
import pickle
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from databus.core.protocols.splits import Split

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from databus.core.state.plan import SourcePlan
    from databus.runtime.context import FlowSession


SPLITS_PER_BATCH = 8
"""Upper bound of splits a batch is cut into: two waves on four cores; more only adds task overhead."""


def read(session: FlowSession, planned: SourcePlan) -> tuple[DataFrame, int]:
    """Return the DataFrame of a range (lazy) and the number of splits it has."""
    splits = splits_of(session, planned)
    return rows_of(session, splits), len(splits)


def rows_of(session: FlowSession, splits: Sequence[Split]) -> DataFrame:
    """Return the DataFrame of some splits; lazy."""
    from databus.runtime.spark.data_source import RowsDataSource, planned_rows

    frame: DataFrame
    if session.flow.source.login_in_splits:
        session.spark.dataSource.register(planned_rows(pack(splits)))
        frame = session.spark.read.format(RowsDataSource.name()).load()
    else:
        session.spark.dataSource.register(RowsDataSource)
        frame = session.spark.read.format(RowsDataSource.name()).option("splits", pack(splits)).load()
    return frame


def splits_of(session: FlowSession, planned: SourcePlan) -> Sequence[Split]:
    """Return the splits of a range, in log order."""
    return session.source.splits(planned, SPLITS_PER_BATCH)


def pack(splits: Sequence[Split]) -> str:
    """Serialise splits; those that carry a login must not become an option of a data source (ADR 18)."""
    return base64.b64encode(pickle.dumps(list(splits))).decode()


def unpack(text: str) -> list[Any]:
    """Read what `pack` wrote; only ever fed with strings of this process's own making."""
    return list(pickle.loads(base64.b64decode(text)))  # noqa: S301 - our own driver wrote it
