"""HTTP service over Kafka topics: records in with idempotence, records out with acknowledgement (`databus stream`)."""
