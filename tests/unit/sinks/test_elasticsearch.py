"""The spec: options, templates, JSON."""

from __future__ import annotations

import pytest

from databus.core.errors import ConfigError
from databus.registry import spec_class
from databus.sinks.elasticsearch.spec import Elasticsearch


def test_kind_is_registered_and_json_rebuilds_an_equal_spec():
    spec = Elasticsearch(
        conn_id="search", index="{flow}-{table}", mapping={"properties": {"n": {"type": "long"}}}, refresh="wait_for"
    )
    data = spec.to_json()
    rebuilt = spec_class("sinks", data.pop("kind")).from_stored(data)
    assert rebuilt == spec
    assert spec.datasets() == ("{flow}-{table}",)


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"index": "{tabel}"}, "{tabel}"),
        ({"index": "{0}"}, "{0}"),
        ({"index": "a{"}, "index"),
        ({"bulk_bytes": 0}, "bulk_bytes"),
        ({"refresh": "sometimes"}, "refresh"),
        ({"gc_deletes": "a week"}, "gc_deletes"),
        ({"slots": 0}, "slots"),
        ({"pipeline": "x"}, "unknown option 'pipeline'"),
    ],
)
def test_a_wrong_option_is_refused_by_name(options, says):
    with pytest.raises(ConfigError) as refused:
        Elasticsearch(conn_id="search", **options)
    assert says in str(refused.value)
