"""Nodes of a flow in ZooKeeper beside its checkpoint: what each holds and how it is written."""
