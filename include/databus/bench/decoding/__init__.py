"""Benchmarks of decoding: rows and JSON documents per CPU-second, memory, scaling."""
