"""MySQL and MariaDB source: the binary log, dumped into segments and decoded in tasks."""
