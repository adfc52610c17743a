"""`python -m tests.bench.e2e`: the same as `databus bench e2e`."""

from databus.cli.main import main

if __name__ == "__main__":
    main(["bench", "e2e"])
