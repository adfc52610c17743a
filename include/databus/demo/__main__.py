"""Entry of `python -m databus.demo`."""

import sys

from databus.demo.main import main

sys.exit(main())
