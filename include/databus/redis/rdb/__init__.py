"""RDB files of Redis: every type and encoding up to version 10 (Redis 7.0), in pure Python."""
