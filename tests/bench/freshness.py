"""`python -m tests.bench.freshness`: the same as `databus bench freshness`."""

from databus.cli.main import main

if __name__ == "__main__":
    main(["bench", "freshness"])
