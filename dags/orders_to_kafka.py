"""Orders: MySQL binlog to Kafka topic cdc.orders, every minute."""

from datetime import timedelta

from databus import DropColumns, Flow, Kafka, MysqlBinlog, NotNull
from databus.airflow import flow_dag

orders = Flow(
    name="orders_to_kafka",
    source=MysqlBinlog(conn_id="mysql_shop", tables=("shop.orders",)),
    transforms=(DropColumns("card_number"),),
    checks=(NotNull("customer_id"),),
    sinks=(Kafka(conn_id="kafka_east", topic="cdc.orders"),),
)
dag = flow_dag(orders, every=timedelta(minutes=1))
