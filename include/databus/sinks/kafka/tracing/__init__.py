"""Tracing in topics: Kafka records that carry a change, and the row images in them."""
