"""The MySQL and MariaDB binary log: wire format, columnar decoding, segments.

What lives here knows bytes, not flows: no Spark, no checkpoints, no sinks. Modules that compile kernels or load Arrow
are imported only by whoever decodes.
"""
