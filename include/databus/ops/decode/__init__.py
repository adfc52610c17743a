"""Use case of decoding local log files without a server."""
