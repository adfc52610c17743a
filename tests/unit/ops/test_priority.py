"""What gives way runs at a lower priority, and as before afterwards."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

CODE = """
import os
from databus.airflow.operators.process import giving_way

def now():
    return os.getpriority(os.PRIO_PROCESS, 0)

before = now()
try:
    with giving_way():
        print(now() - before)
        raise ValueError
except ValueError:
    print(now() - before)
"""


def test_it_is_lowered_for_a_while() -> None:
    if os.getpriority(os.PRIO_PROCESS, 0) > 14:
        pytest.skip("this process cannot be lowered further")
    found = subprocess.run([sys.executable, "-c", CODE], capture_output=True, text=True, check=True)
    inside, after = found.stdout.split()
    assert inside == "5"
    assert after == ("0" if os.geteuid() == 0 else "5")
