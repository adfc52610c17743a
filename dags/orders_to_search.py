"""Orders and products: MySQL binlog to one search index each, every minute."""

from datetime import timedelta

from databus import Elasticsearch, Flow, Hash, MysqlBinlog
from databus.airflow import flow_dag

# BIGINT UNSIGNED goes beyond `long`, which the index would choose by itself.
IDS = {"properties": {"customer_id": {"type": "unsigned_long"}}}

search = Flow(
    name="orders_to_search",
    source=MysqlBinlog(conn_id="mysql_shop", tables=("shop.orders", "shop.products")),
    transforms=(Hash("card_number", tables=("shop.orders",)),),
    sinks=(Elasticsearch(conn_id="opensearch_default", index="{table}", mapping=IDS),),
)
dag = flow_dag(search, every=timedelta(minutes=1))
