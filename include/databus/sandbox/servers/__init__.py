"""The kinds of servers, one file each.

Nothing of how processes are kept, or of state on disk, leaks in here: a kind says what to fetch, what to write, what
to run and how to ask whether it is well.
"""
