"""The whole shop: paid orders to Kafka, people to a topic and an index of their own, card numbers nowhere."""

from datetime import timedelta

from databus import DropColumns, Elasticsearch, Filter, Flow, InRange, Kafka, Mask, MysqlBinlog, Route
from databus.airflow import flow_dag

shop = Flow(
    name="shop_fan_out",
    source=MysqlBinlog(conn_id="mysql_shop", tables=("shop.*",)),
    transforms=(
        Filter("status <> 'new'", tables=("shop.orders",)),
        DropColumns("card_number", tables=("shop.orders",)),
        Mask("email", tables=("shop.customers",)),
        Route({"shop.customers": "people", "shop.*": "trade"}),
    ),
    checks=(InRange("quantity", minimum=1, maximum=1000, tables=("shop.order_items",), severity="warn"),),
    sinks=(
        Kafka(conn_id="kafka_east", topic="shop.{route}", partitions=4, slots=2),
        Elasticsearch(
            conn_id="opensearch_default",
            index="shop-{route}",
            routes=("people",),
            mapping={"properties": {"customer_id": {"type": "unsigned_long"}}},  # as in MySQL: beyond `long`
        ),
    ),
)
dag = flow_dag(shop, every=timedelta(minutes=1))
