"""spark-submit entry: run one window of a flow. All logic is in `databus.ops.runs.submit`."""

import sys

from databus.ops.runs.submit import main

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
