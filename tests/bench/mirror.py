"""`python -m tests.bench.mirror`: the same as `databus bench mirror`."""

from databus.cli.main import main

if __name__ == "__main__":
    main(["bench", "mirror"])
