"""Kafka records in Avro: schemas registered when a batch is planned, envelopes written from row batches."""
