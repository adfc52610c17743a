"""Redis replication: the handshake of PSYNC, the snapshot as it is sent, and the stream of commands."""
