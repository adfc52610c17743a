"""Mirror: the shop's topics from the eastern to the western data centre, exactly once."""

from datetime import timedelta

from databus import Mirror
from databus.airflow import mirror_dag

mirror = Mirror(
    name="mirror_east_to_west",
    source_conn_id="kafka_east",
    target_conn_id="kafka_west",
    topics=("cdc.*",),
    two_way="mirror_west_to_east",
)
# Paused until somebody has a second Kafka behind `kafka_west`, and says so in Airflow.
dag = mirror_dag(mirror, every=timedelta(minutes=1), is_paused_upon_creation=True)
