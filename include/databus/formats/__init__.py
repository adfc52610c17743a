"""Message formats beside databus's own: values, schemas and envelopes as other connectors write them.

Nothing here knows a sink or a server: rows and a table's definition go in, texts come out.
"""
