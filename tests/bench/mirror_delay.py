"""`python -m tests.bench.mirror_delay`: the same as `databus bench mirror-delay`."""

from databus.cli.main import main

if __name__ == "__main__":
    main(["bench", "mirror-delay"])
