"""Words for places in a flow's log as a person gives them: which are some, whatever the log holds."""

from __future__ import annotations

import json
import re
from datetime import datetime

from databus.core.errors.checkpoint import CheckpointFormatError
from databus.core.errors.config import PlaceError
from databus.core.errors.source import OffsetInvalidError
from databus.core.flow import Flow
from databus.core.positions.offsets import KafkaOffsets, Offset, is_foreign, offset_from_json

_DATE = re.compile(r"\d{4}-\d\d-\d\d(?!\d)")


def require_place(flow: Flow, text: str, option: str = "place") -> None:
    """Refuse a text that is no place of a flow's log in any form; asks no server.

    Args:
        flow: the flow.
        text: what was given.
        option: where it was given, as the person who gave it names that: "--from".

    Raises:
        PlaceError: it is none; says what was given where, and which forms there are.
    """
    if is_json(text):
        offset_of(flow, text, option)
        return
    if text == "earliest" or _is_time(text):
        return
    if flow.source.problem_with_place(text):
        raise PlaceError(
            f"flow {flow.name}: {option} {text!r} is no place of its log{_why(flow, text)}", hint=_forms(flow)
        )


def is_json(text: str) -> bool:
    """Return whether a text is meant as an offset in JSON."""
    return text.lstrip().startswith("{")


def offset_of(flow: Flow, text: str, option: str = "place") -> Offset:
    """Return the offset that a text in JSON is.

    Raises:
        PlaceError: it is none.
    """
    try:
        return offset_from_json(json.loads(text))
    except (ValueError, CheckpointFormatError, OffsetInvalidError) as error:
        raise PlaceError(
            f"flow {flow.name}: {option} {text} is not an offset: {error}",
            hint=f"See `databus checkpoint show {flow.name} -o json`.",
        ) from None


def place_word(offset: Offset) -> str:
    """Return a place in a form that `require_place` takes; of many partitions, and of another package, as JSON."""
    if is_foreign(offset):
        return json.dumps(offset.to_json())
    if not isinstance(offset, KafkaOffsets):
        return str(offset)
    text = str(offset)
    return json.dumps(offset.to_json()) if "more partition" in text else f"offsets:{text}"


def _is_time(text: str) -> bool:
    try:
        datetime.fromisoformat(text.strip())
    except ValueError:
        return False
    return True


def _why(flow: Flow, text: str) -> str:
    """Say what is wrong with a text that has the form of a date or of GTIDs; "" of others."""
    if _DATE.match(text.strip()):
        try:
            datetime.fromisoformat(text.strip()[:10])
        except ValueError as error:
            return f": {error}"
    if text.startswith("gtid:") and any(form.startswith("gtid:") for form in flow.source.places):
        return f": {flow.source.problem_with_place(text).removeprefix('start: ')}"
    return ""


def _forms(flow: Flow) -> str:
    forms = (
        "a time (2026-11-24T10:00 or 2026-11-24, UTC without a zone)",
        "earliest",
        "latest",
        *flow.source.places,
        f"an offset as JSON (`databus checkpoint show {flow.name} -o json`)",
    )
    return f"Known forms: {'; '.join(forms)}."
