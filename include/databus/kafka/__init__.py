"""What the Kafka source, the Kafka sink and the mirror share: clients from connections, refusals in words."""
