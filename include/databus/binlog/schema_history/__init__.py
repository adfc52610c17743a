"""What TABLE_MAP events do not say of a table, by place of the log; how it follows DDL; where it is kept.

Pure: no server is asked here. `sources.mysql_definitions` seeds a history and feeds it.
"""
