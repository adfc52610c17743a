"""The test run itself: what is in which tier, the order, how it is told and measured, and what is tried again."""
