"""The terminal: options and output that several commands share, exit codes."""
