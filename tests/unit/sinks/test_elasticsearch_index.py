"""Index names, patterns and time values."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from opensearchpy.exceptions import AuthorizationException

from databus.core.connections import Connection
from databus.core.errors import SinkSettingError
from databus.sinks.elasticsearch.client import addresses, reason_of
from databus.sinks.elasticsearch.index_names import create_body, index_name
from databus.sinks.elasticsearch.index_state import IndexState
from databus.sinks.elasticsearch.indices import Indices
from databus.sinks.elasticsearch.preflight import index_pattern, seconds


def name(template, route="r"):
    return index_name(template, flow="f", database="Shop", table="Orders", route=route)


def test_names_are_lower_cased():
    assert name("{database}.{table}-{flow}-{route}", route="EU") == "shop.orders-f-eu"


@pytest.mark.parametrize("template", ["_{table}", "a b", "{route}", "x" * 256, "a/b", ""])
def test_a_name_the_servers_refuse_is_refused_before(template):
    with pytest.raises(SinkSettingError) as refused:
        name(template, route="a*b")
    assert refused.value.message.startswith("flow f: ")
    assert "Shop.Orders" in str(refused.value)


def test_tables_that_differ_in_case_alone_are_kept_apart_by_ids():
    indices = Indices(None, "here", {}, shared=False)
    indices._known["shop.upper"] = IndexState("shop.UPPER")
    with pytest.raises(SinkSettingError) as refused:
        indices.standing("shop.upper", "shop.upper")
    assert "into the index template" not in refused.value.hint
    assert 'Set ids="table_key"' in refused.value.hint
    with pytest.raises(SinkSettingError, match=r"Put \{database\} and \{table\} into the index template, or set ids="):
        indices.standing("shop.upper", "shop.other")


def test_the_pattern_covers_every_name_of_a_template():
    assert index_pattern("{database}{table}-{flow}", "Orders") == "*-orders"


def test_creation_keeps_deleted_versions_and_lets_settings_win():
    body = create_body({"dynamic": "strict"}, {"number_of_replicas": 0}, "7d", soft_deletes=True)
    assert body["settings"] == {"index.gc_deletes": "7d", "number_of_replicas": 0}
    fields = {"__deleted": {"type": "boolean"}, "__flags": {"type": "keyword"}}
    assert body["mappings"] == {"dynamic": "strict", "properties": fields}
    assert create_body(None, None, "7d", soft_deletes=False)["mappings"] == {}


@pytest.mark.parametrize(("text", "expected"), [("7d", 604800), ("60s", 60), ("500ms", 0.5), ("-1", 0)])
def test_time_values(text, expected):
    assert seconds(text) == expected


def test_addresses_read_every_way_a_connection_says_where():
    several = Connection(conn_id="s", conn_type="opensearch", host="https://a:9201, b", port=9300)
    assert addresses(several) == [
        {"host": "a", "port": 9201, "use_ssl": True},
        {"host": "b", "port": 9300, "use_ssl": False},
    ]
    for way in ({"db_schema": "https"}, {"extra": {"scheme": "https"}}, {"extra": {"use_ssl": True}}):
        (node,) = addresses(Connection(conn_id="s", conn_type="opensearch", host="h", **way))
        assert node == {"host": "h", "port": 9200, "use_ssl": True}


def test_the_cause_of_a_refusal_is_read_to_the_bottom():
    error = {"type": "mapper_parsing_exception", "reason": "failed", "caused_by": {"reason": "not a date"}}
    assert reason_of({"error": error}) == "mapper_parsing_exception: failed (not a date)"
    assert reason_of({"error": "plain"}) == "plain"
    assert reason_of(None) == ""


def test_a_table_that_the_login_may_not_write_down_is_tried_and_told_once(caplog):
    """Indices are new in each plan; what was refused is the sink's."""
    tried, unlisted = [], set()

    def refuse(**_):
        tried.append(1)
        raise AuthorizationException(403, "security_exception", {})

    of_server = SimpleNamespace(get_mapping=lambda **_: {"orders": {"mappings": {"_meta": {}}}}, put_mapping=refuse)
    for _ in range(3):
        client = SimpleNamespace(indices=of_server)
        Indices(client, "search", {}, shared=True, listing=True, unlisted=unlisted).ensure("orders", "shop.Orders")
    assert (len(tried), unlisted) == (1, {("orders", "shop.Orders")})
    assert len([r for r in caplog.records if "may not write down" in r.getMessage()]) == 1
