"""Kafka clients from connections, and refusals in words: shared by the Kafka source, the Kafka sink and the mirror."""
