"""A flow beside the tables of its source: what it asks for, and what is not there."""
