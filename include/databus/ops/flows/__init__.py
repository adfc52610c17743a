"""Use cases of flows: finding them in DAG files, and drawing them as graphs."""
