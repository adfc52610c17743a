"""Options of the Kafka sink that say what a message looks like."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, Literal

from pydantic import field_validator, model_validator

from databus.core.errors.sink import ValidationRefusedError
from databus.core.flow_specs import SinkSpec
from databus.sinks.kafka.headers import DEFAULT, Header

if TYPE_CHECKING:
    from databus.formats.row_runs import MessageFormat

Envelope = Literal["debezium", "row", "maxwell", "canal", "outbox"]

OF_DEBEZIUM_TYPES = ("schemas", "topic_prefix", "decimal", "bigint_unsigned", "binary")
"""Options that say something with `types="debezium"` alone."""

OF_OUTBOX = ("payload", "event_headers")
"""Options that say something with `envelope="outbox"` alone."""

NEW = ("types", *OF_DEBEZIUM_TYPES, "headers", "cloudevents", *OF_OUTBOX)
"""Options that are left out of what is stored where they are at their default: older definitions lack them."""


class MessageOptions(SinkSpec):
    """Form of messages.

    Attributes:
        envelope: "debezium" (default: before, after, source, op, ts_ms, transaction), "row" (the columns of the row
            plus __op, __deleted, __ts_ms, __event_id, and __flags where it has flags; a column of such a name is
            refused), "maxwell" (Maxwell's JSON), "canal" (Canal's flat JSON) or "outbox": rows are events, written as
            Debezium's outbox event router does: the value is `payload` alone, the key `aggregateid`, and `id` a header.
            The last three, and `types="debezium"`, need the direct lane.
        types: "iso" (default) writes times as ISO texts and numbers with all their digits. "debezium", with
            `envelope="debezium"`, writes values, keys and envelope as Debezium's MySQL connector does by default.
        schemas: whether Kafka Connect's schemas are sent around keys and values (Debezium's `schemas.enable`), with
            `types="debezium"`; default False.
        topic_prefix: what names in schemas begin with, and `source.name` (Debezium's `topic.prefix`), with
            `types="debezium"`; default "", the flow's name.
        decimal: DECIMAL with `types="debezium"` (`decimal.handling.mode`): "precise" (default), base64 of the unscaled
            integer's bytes; "string"; or "double", which rounds.
        bigint_unsigned: BIGINT UNSIGNED with `types="debezium"` (`bigint.unsigned.handling.mode`): "long" (default),
            negative above 2^63 - 1 and flagged; or "precise", as a decimal.
        binary: BINARY, VARBINARY and BLOB with `types="debezium"` (`binary.handling.mode`): "bytes" (default, base64 in
            JSON), "base64" or "hex".
        payload: with `envelope="outbox"`, "json" (default), the payload's text as it is (the router's
            `table.expand.json.payload`), or "string", that text as a JSON string. NULL is a record without a value.
        event_headers: with `envelope="outbox"`, columns that are headers too, e.g. ("type",); default none.
        headers: headers of each record, in this order: "event_id" (has to be there: a repeat is known by it), "ts_ms",
            "op", "table" (`database.table`), "gtid", "position" (file and end of the transaction), "server_id", "flow",
            "batch", "traceparent" (W3C's; a trace for each transaction), "transaction" (its id), and with
            `transaction_topic` "total_order" and "data_collection_order". Default ("event_id", "ts_ms").
        cloudevents: whether the attributes of CloudEvents 1.0 are sent as headers beside them (binary content mode:
            `ce_id`, `ce_source`, `ce_type`, `ce_time`, `ce_subject`); default False. A tombstone has none.
    """

    envelope: Envelope = "debezium"
    types: Literal["iso", "debezium"] = "iso"
    schemas: bool = False
    topic_prefix: str = ""
    decimal: Literal["precise", "string", "double"] = "precise"
    bigint_unsigned: Literal["long", "precise"] = "long"
    binary: Literal["bytes", "base64", "hex"] = "bytes"
    payload: Literal["json", "string"] = "json"
    event_headers: tuple[str, ...] = ()
    headers: tuple[Header, ...] = DEFAULT
    cloudevents: bool = False

    left_out: ClassVar[tuple[str, ...]] = NEW

    @model_validator(mode="after")
    def _types_have_their_envelope(self) -> MessageOptions:
        if self.types == "debezium" and self.envelope != "debezium":
            raise ValueError('types="debezium" is of envelope="debezium"')
        told = sorted(set(OF_DEBEZIUM_TYPES) & self.model_fields_set)
        if told and self.types != "debezium":
            raise ValueError(f'{", ".join(told)}: with types="debezium" alone')
        return self

    @model_validator(mode="after")
    def _events_have_their_envelope(self) -> MessageOptions:
        if self.envelope != "outbox":
            if told := sorted(set(OF_OUTBOX) & self.model_fields_set):
                raise ValueError(f'{", ".join(told)}: with envelope="outbox" alone')
            return self
        names = ("id", *self.headers, *self.event_headers)
        if not all(names) or len(set(names)) < len(names):
            raise ValueError("event_headers name a header twice, or an empty one; `id` is one already")
        if self.cloudevents:
            raise ValueError('cloudevents are of changes: envelope="outbox" sends the payload of a program')
        return self

    @field_validator("headers")
    @classmethod
    def _headers_name_the_change(cls, value: tuple[Header, ...]) -> tuple[Header, ...]:
        if "event_id" not in value:
            raise ValueError('headers need "event_id": by it a repeat is known, and a record is traced')
        if len(set(value)) < len(value):
            raise ValueError("headers name one twice")
        return value

    def stored(self) -> dict[str, Any]:
        """Return the options as plain JSON, without newer ones that are at their default."""
        fields = type(self).model_fields
        defaults = {name: fields[name].default for name in self.left_out if name in fields}
        plain = {name: list(value) if isinstance(value, tuple) else value for name, value in defaults.items()}
        return {
            name: value for name, value in super().stored().items() if name not in self.left_out or value != plain[name]
        }

    @property
    def content_format(self) -> str:
        """Format of a record's value, a key of `headers.CONTENT_TYPES`."""
        return "json"

    def needs_direct_lane(self) -> str:
        """Return the option that only the direct lane can do, as a person writes it; "" where there is none."""
        if self.types == "debezium":
            return 'types="debezium"'
        return f'envelope="{self.envelope}"' if self.envelope in ("maxwell", "canal", "outbox") else ""

    def has_value_form(self) -> str:
        """Return the option with which values are in a form of their own; events are made of rows in the usual one."""
        return "" if self.envelope == "outbox" else self.needs_direct_lane()

    def names_key_columns(self) -> str:
        """Return the option whose messages name the key's columns in the row; "" where the key stands alone."""
        return "" if self.envelope == "outbox" else MessageOptions.needs_direct_lane(self)

    def message_format(self) -> MessageFormat | None:
        """Return the format that the direct lane alone writes; None for the others."""
        if self.types == "debezium":
            from databus.formats.debezium import DebeziumJson
            from databus.formats.debezium_values import DebeziumValues

            values = DebeziumValues(self.decimal, self.bigint_unsigned, self.binary, whole=self.schemas)
            return DebeziumJson(values, self.schemas, self.topic_prefix)
        if self.envelope == "maxwell":
            from databus.formats.maxwell import MaxwellJson

            return MaxwellJson()
        if self.envelope == "canal":
            from databus.formats.canal import CanalJson

            return CanalJson()
        return None


def require_read_back(spec: MessageOptions) -> None:
    """Refuse to compare messages in a form that is not read back: keys in it do not name rows of the source.

    Raises:
        ValidationRefusedError: names the option.
    """
    if option := spec.needs_direct_lane():
        raise ValidationRefusedError(
            f"sink {spec.sink_name}: values and keys of {option} are not read back into rows",
            hint='Compare another sink of the flow: only types="iso" with envelope="debezium" or "row" is compared.',
        )
