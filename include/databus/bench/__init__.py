"""Benchmarks on real servers of the sandbox: figures with settings and hardware, and a failure below the bar.

They stand beside the product and are imported by nothing of the path. `databus bench …` and `make bench-…` run
them.
"""
