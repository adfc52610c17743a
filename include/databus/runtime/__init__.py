"""The path: plan → read → transform → check → dispatch → commit → record, one file per verb.

`batch.py` reads as the sentence, `window.py` repeats it. Nothing here knows which source or sink it moves;
Spark is the only engine and is imported lazily.
"""
