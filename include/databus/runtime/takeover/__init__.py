"""Takeover by a new holder: unfinished plans, forgotten markers, leftovers of a killed one."""
