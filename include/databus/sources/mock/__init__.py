"""Mock source: made-up rows, the same at every read, without any server."""
