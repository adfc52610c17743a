"""Sources: one file per kind holds its spec; what opens it is loaded when a flow runs."""
