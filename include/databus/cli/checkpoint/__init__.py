"""`databus checkpoint`: shows and amends the committed checkpoint."""
