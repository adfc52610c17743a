"""Model of the snapshot protocol: random histories of a table, a flow with chunks in its batches, kills, two sinks."""
