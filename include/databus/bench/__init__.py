"""Benchmarks on real servers of the sandbox: figures with settings and hardware, and a failure below the bar.

They stand beside the product and are imported by nothing of the path. `python -m tests.bench.…`, `make bench-…` and
`databus bench …` run the same code.
"""
