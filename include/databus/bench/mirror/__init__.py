"""Benchmarks of mirrors beside MirrorMaker 2: throughput, delay, a link that was down."""
