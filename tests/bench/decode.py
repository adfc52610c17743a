"""`python -m tests.bench.decode`: the same as `databus bench decode`."""

from databus.cli.main import main

if __name__ == "__main__":
    main(["bench", "decode"])
