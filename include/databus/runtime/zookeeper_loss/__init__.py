"""Loss of ZooKeeper: retries, and the holder that goes on without it (ADR 19)."""
