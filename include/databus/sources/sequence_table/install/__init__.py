"""Installation of outboxes and of trigger logs: tables, functions and triggers, as SQL that can be shown first."""
