"""Late writers of the index: whatever an old holder writes after the new one, no document changes."""

from __future__ import annotations

import os
import random
import threading

import pytest

from tests.integration import search_target as given
from tests.integration.search_target import change

pytestmark = pytest.mark.integration
connection, client, target = given.connection, given.client, given.target

ZOMBIES = int(os.environ.get("DATABUS_ZOMBIES", "40"))
KEYS = range(7)


def test_late_and_concurrent_writers_change_nothing(target):
    """Half write a batch again after a newer one was written, half write it while a newer one is being written."""
    to = target()
    to.prepare()
    chance = random.Random(23)
    rows: dict[int, int] = {}
    batches = []
    for number in range(ZOMBIES):
        batch = []
        for ordinal, key in enumerate(chance.sample(KEYS, 4)):
            place = {"pos": 1000 + number, "ordinal": ordinal}
            if key in rows and chance.random() < 0.4:
                del rows[key]
                batch.append(change("d", key, None, **place))
            else:
                batch.append(change("u" if key in rows else "c", key, {"n": number}, **place))
                rows[key] = number
        batches.append(batch)
        late = chance.choice(batches)
        if number % 2:
            zombie = threading.Thread(target=to.write, args=late)
            zombie.start()
            to.write(*batch)
            zombie.join()
        else:
            to.write(*batch)
            to.write(*late)
        expected = {str(key): {"id": key, "n": n} for key, n in rows.items()}
        assert to.documents() == expected, f"zombie {number} of batch {batches.index(late)}"
