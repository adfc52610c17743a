"""Kafka records in formats with a registry: schemas registered when a batch is planned, and their encoders."""
