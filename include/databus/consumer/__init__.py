"""Consumer library: row changes of Kafka topics in Python, with acknowledgement, checkpoints and transactions.

Needs the extra `consumer` alone: no Spark, no Airflow, nothing that is compiled. For example
`for change in Changes("kafka:9092", "cdc.shop.orders", group="billing"): …` (docs/howto/read-changes-in-python.md).
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from databus.consumer.change import Change, Transaction
    from databus.consumer.changes import Changes
    from databus.consumer.checkpoints import DatabaseCheckpoint, FileCheckpoint
    from databus.consumer.handlers import Handlers
    from databus.consumer.progress import Seen
    from databus.consumer.state_topic import StateTopic

__all__ = [
    "Change",
    "Changes",
    "DatabaseCheckpoint",
    "FileCheckpoint",
    "Handlers",
    "Seen",
    "StateTopic",
    "Transaction",
]

_PLACES = {
    "Change": "change",
    "Changes": "changes",
    "DatabaseCheckpoint": "checkpoints",
    "FileCheckpoint": "checkpoints",
    "Handlers": "handlers",
    "Seen": "progress",
    "StateTopic": "state_topic",
    "Transaction": "change",
}
"""Public name → its module."""


def __getattr__(name: str) -> Any:
    if name not in _PLACES:
        raise AttributeError(f"module 'databus.consumer' has no attribute {name!r}")
    globals()[name] = getattr(import_module(f"databus.consumer.{_PLACES[name]}"), name)
    return globals()[name]


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
