"""Kafka source: topics of a cluster as rows of tables, or as raw records of a mirror."""
