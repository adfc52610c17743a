"""Benchmarks: each prints its figures with hardware and settings and exits non-zero below its bar."""
