"""Registration of a batch's schemas: before a row is read, so that an incompatible table stops with nothing written."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from databus.core.connections import Connection
from databus.core.errors.root import DatabusError
from databus.core.errors.sink import SinkAccessError, SinkError, SinkSchemaError, SinkSettingError, SinkUnavailableError
from databus.core.errors.source import (
    RegistryAccessError,
    RegistryUnavailableError,
    SchemaRefusedError,
    SourceSettingError,
)
from databus.core.state.plan import SourcePlan
from databus.core.state.registered_schemas import RegisteredSchemas
from databus.core.tables.schemas import TableSchema
from databus.schema_registry.settings import KINDS, RegistrySettings
from databus.sinks.envelope import connector
from databus.sinks.kafka.registered.descriptions import FORMATS, Newest, Subjects
from databus.sinks.kafka.spec import Kafka
from databus.sinks.kafka.topics.names import topic_of

if TYPE_CHECKING:
    from databus.schema_registry.client import RegisteredSchema

_NAMES = {"avro": "an Avro", "json_schema": "a JSON", "protobuf": "a Protobuf"}


class Registration:
    """Registers schemas under a topic's subjects, `TOPIC-key` and `TOPIC-value`; asks for each schema once.

    Registering is idempotent: a schema that a subject has keeps its id, so that a run which died between this and its
    plan does no harm.

    Args:
        connection: the registry's connection.
        spec: the sink.

    Raises:
        SinkSettingError: the connection names no registry.
    """

    def __init__(self, connection: Connection, spec: Kafka):
        try:
            self.settings = RegistrySettings.of(connection, spec.timeout_s)
        except SourceSettingError as error:
            raise SinkSettingError(error.message, hint=error.hint) from error
        self._spec = spec
        self._ids: dict[tuple[str, str], int] = {}
        self._last: dict[str, RegisteredSchema | None] = {}

    def register(
        self, plan: SourcePlan, outputs: Sequence[tuple[TableSchema, str]], flow: str
    ) -> dict[int, RegisteredSchemas]:
        """Return schema_id → what is registered for the records of its table, in the order of the log.

        Args:
            plan: the range, with the tables as the source reads them.
            outputs: (the table as the transforms leave it, route) of those that the sink takes.
            flow: flow name.

        Raises:
            SinkSchemaError: the registry refuses a schema that does not go with those of the subject before it.
            SinkSettingError: two columns have one name in the format; what answers is no registry; the subject's newest
                schema is not understood; a transform does not say which columns it leaves.
            SinkUnavailableError, SinkAccessError: it does not answer; it refuses the login.
        """
        of_source = {table.schema_id: table for table in plan.tables}
        found: dict[int, RegisteredSchemas] = {}
        for written, route in sorted(outputs, key=lambda output: output[0].schema_id):
            table = of_source.get(written.schema_id)
            if table is None:  # of a statement
                continue
            if table.columns and not written.columns:
                raise direct_only(self._spec)
            topic = topic_of(self._spec.topic, written, route, flow)
            told = FORMATS[self._spec.format](table, written, topic, connector(plan), self._newest(table))
            subjects = Subjects(topic)
            key = self._id(subjects.key, told.key, table) if told.key else 0
            value = self._id(subjects.value, told.value, table)
            found[table.schema_id] = RegisteredSchemas(topic, value, told.form, key, told.numbers, told.key_numbers)
        return found

    def _newest(self, table: TableSchema) -> Newest:
        """Return what gives a subject's newest schema: that which was registered here last, or as the registry says."""

        def find(subject: str) -> RegisteredSchema | None:
            if subject not in self._last:
                from databus.schema_registry.client import newest

                try:
                    self._last[subject] = newest(self.settings, subject)
                except DatabusError as error:
                    raise _as_of_sink(error, subject, table, self._spec.format) from error
            return self._last[subject]

        return find

    def _id(self, subject: str, text: str, table: TableSchema) -> int:
        from databus.schema_registry.client import RegisteredSchema, register  # a flow of JSON alone has no client

        known = self._ids.get((subject, text))
        if known is None:
            kind = KINDS[self._spec.format]
            try:
                known = register(self.settings, subject, kind, text)
            except DatabusError as error:
                self._last.pop(subject, None)
                raise _as_of_sink(error, subject, table, self._spec.format) from error
            self._ids[subject, text] = known
            self._last[subject] = RegisteredSchema(known, kind, text)
        return known


def require_json(spec: Kafka, raised: type[SinkError] = SinkSettingError, why: str = "") -> None:
    """Refuse a format with a registry.

    Args:
        spec: the sink.
        raised: the error.
        why: what is not done for it; by default that it needs the direct lane.

    Raises:
        SinkError: of that class.
    """
    if spec.format != "json":
        raise (
            direct_only(spec)
            if not why
            else raised(f"sink {spec.sink_name}: records of {spec.needs_direct_lane()} {why}")
        )


def direct_only(spec: Kafka) -> SinkSettingError:
    """Return the error of rows that are not encoded where they are read."""
    return SinkSettingError(
        f"sink {spec.sink_name}: {spec.needs_direct_lane()} needs the direct lane, and these rows take Spark's",
        hint="A transform that does not compile, a check of severity fail, lane='spark' or another sink of the flow "
        "keeps Spark's lane: leave it out, or give the sink format='json'.",
        code="lane_required",
    )


def _as_of_sink(error: DatabusError, subject: str, table: TableSchema, form: str) -> SinkError:
    if isinstance(error, RegistryUnavailableError):
        return SinkUnavailableError(error.message, hint=error.hint)
    if isinstance(error, RegistryAccessError):
        code = SinkAccessError.code if error.code == RegistryAccessError.code else error.code  # of a TLS fault
        return SinkAccessError(error.message, hint=error.hint, code=code)
    if not isinstance(error, SchemaRefusedError):
        return SinkSettingError(error.message, hint=error.hint)
    columns = ", ".join(f"{column.name} {column.type}" for column in table.columns)
    return SinkSchemaError(
        f"table {table.full_name} ({columns}) has {_NAMES[form]} schema that does not go with those before it under "
        f"subject {subject}: {error.message}",
        hint="Nothing of this batch was read or written. Bring the table back; or hide the change from the sink with "
        f"RenameColumns or DropColumns; or set the compatibility of {subject} to NONE for as long as the batch "
        "takes, if its consumers can read both; or give the sink another `topic`, whose subjects are new.",
    )
