"""Records in SQL: batch reports, quarantined rows, quality results, and the lineage made from them.

Nothing here decides what is read or written next: checkpoints live in ZooKeeper. The store may lag and be rebuilt.
"""
