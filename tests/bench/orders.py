"""The orders table of the benchmarks; it stands in the package, so that an installed databus can run them."""

from databus.bench.orders import create, load

__all__ = ["create", "load"]
