"""Faults under a mirror between two Kafka clusters: what arrives must equal what was committed, byte for byte."""
