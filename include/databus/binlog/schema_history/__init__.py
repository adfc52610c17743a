"""Schema history by place of the log: what TABLE_MAP events do not say, how it follows DDL, where it is kept.

Pure: no server is asked here. `sources.mysql_definitions` seeds a history and feeds it.
"""
