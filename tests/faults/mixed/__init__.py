"""Mixed schedules: clusters, two sinks and a real Spark server, faults of every kind in turn for an hour."""
