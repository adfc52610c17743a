"""Databus: change data capture scheduled by Airflow, moved by Spark, checkpointed in ZooKeeper.

`from databus import Flow, MysqlBinlog, Kafka, …` offers every registered kind; classes load when first named,
so that importing this package loads neither pyspark nor airflow.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from databus.checks.accepted_values import AcceptedValues as AcceptedValues
    from databus.checks.decodable import Decodable as Decodable
    from databus.checks.freshness import Freshness as Freshness
    from databus.checks.in_range import InRange as InRange
    from databus.checks.not_null import NotNull as NotNull
    from databus.checks.schema import Schema as Schema
    from databus.checks.volume import Volume as Volume
    from databus.core.batching import Batching as Batching
    from databus.core.expectations import Expectations as Expectations
    from databus.core.flow import Flow as Flow
    from databus.mirror import Mirror as Mirror
    from databus.observe.alerts.email import Email as Email
    from databus.observe.alerts.notifier import Notifier as Notifier
    from databus.observe.alerts.rules import AlertWhen as AlertWhen
    from databus.observe.alerts.webhook import Webhook as Webhook
    from databus.sinks.console import Console as Console
    from databus.sinks.elasticsearch.spec import Elasticsearch as Elasticsearch
    from databus.sinks.kafka import Kafka as Kafka
    from databus.sinks.kafka_mirror import MirrorTopics as MirrorTopics
    from databus.sinks.memory import Memory as Memory
    from databus.sinks.noop import Noop as Noop
    from databus.sinks.simple import SimpleSink as SimpleSink
    from databus.sources.kafka.spec import KafkaTopics as KafkaTopics
    from databus.sources.mock.fault import MockFault as MockFault
    from databus.sources.mock.spec import Mock as Mock
    from databus.sources.mysql.row_filters import HashPartition as HashPartition
    from databus.sources.mysql.row_filters import ModuloPartition as ModuloPartition
    from databus.sources.mysql.row_filters import RangePartition as RangePartition
    from databus.sources.mysql.snapshot_options import SnapshotOptions as SnapshotOptions
    from databus.sources.mysql.spec import MysqlBinlog as MysqlBinlog
    from databus.sources.sequence_table.spec import SequenceTable as SequenceTable
    from databus.sources.simple import SimpleSource as SimpleSource
    from databus.transforms.add_column import AddColumn as AddColumn
    from databus.transforms.cast import Cast as Cast
    from databus.transforms.drop import DropColumns as DropColumns
    from databus.transforms.extract import Extract as Extract
    from databus.transforms.filter import Filter as Filter
    from databus.transforms.flatten import Flatten as Flatten
    from databus.transforms.hash import Hash as Hash
    from databus.transforms.key_by import KeyBy as KeyBy
    from databus.transforms.lookup import Lookup as Lookup
    from databus.transforms.mask import Mask as Mask
    from databus.transforms.project import Project as Project
    from databus.transforms.python_function import PythonFunction as PythonFunction
    from databus.transforms.rename import RenameColumns as RenameColumns
    from databus.transforms.route import Route as Route
    from databus.transforms.split import Split as Split
    from databus.transforms.truncate import Truncate as Truncate

    __version__: str

_OWN = {"Batching": "databus.core.batching", "Flow": "databus.core.flow"}

__all__ = [
    "AcceptedValues",
    "AddColumn",
    "AlertWhen",
    "Batching",
    "Cast",
    "Console",
    "Decodable",
    "DropColumns",
    "Elasticsearch",
    "Email",
    "Expectations",
    "Extract",
    "Filter",
    "Flatten",
    "Flow",
    "Freshness",
    "Hash",
    "HashPartition",
    "InRange",
    "Kafka",
    "KafkaTopics",
    "KeyBy",
    "Lookup",
    "Mask",
    "Memory",
    "Mirror",
    "MirrorTopics",
    "Mock",
    "MockFault",
    "ModuloPartition",
    "MysqlBinlog",
    "Noop",
    "NotNull",
    "Notifier",
    "Project",
    "PythonFunction",
    "RangePartition",
    "RenameColumns",
    "Route",
    "Schema",
    "SequenceTable",
    "SimpleSink",
    "SimpleSource",
    "SnapshotOptions",
    "Split",
    "Truncate",
    "Volume",
    "Webhook",
    "__version__",
]
"""All public names; a test holds them equal to the registry's and to the imports above."""


def __getattr__(name: str) -> Any:
    if name == "__version__":
        return _version()
    if name.startswith("_") or not name[0].isupper():
        raise AttributeError(f"module 'databus' has no attribute {name!r}")
    if name in _OWN:
        globals()[name] = getattr(import_module(_OWN[name]), name)
        return globals()[name]
    from databus.registry import load_public

    return load_public(name)


def __dir__() -> list[str]:
    """Return all names, those of other packages' kinds too."""
    from databus.registry import public_names

    return sorted({*globals(), *__all__, *public_names()})


def _version() -> str:
    """Return the version and keep it; looking it up loads what reads the metadata of packages."""
    from importlib.metadata import PackageNotFoundError, version

    try:
        found = version("databus")
    except PackageNotFoundError:  # a checkout that was not installed
        found = "0+unknown"
    globals()["__version__"] = found
    return found
