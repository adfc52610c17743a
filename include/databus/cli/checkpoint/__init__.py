"""`databus checkpoint`: showing and amending what is committed."""
