"""`databus bench`: the benchmarks, by what they measure."""
