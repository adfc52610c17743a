"""`python -m tests.bench.catchup`: the same as `databus bench catchup`."""

from databus.cli.main import main

if __name__ == "__main__":
    main(["bench", "catchup"])
