"""Sink contract as tests name it; it is shipped as `databus.testing.contract`."""

from databus.testing.contract.sink import (
    ORDERS,
    ContractChange,
    SinkAdapter,
    SinkContract,
    inserts,
    offsets,
    source_plan,
)

__all__ = ["ORDERS", "ContractChange", "SinkAdapter", "SinkContract", "inserts", "offsets", "source_plan"]
