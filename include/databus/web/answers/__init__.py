"""Answers of the API as models, for its description alone; tests hold them to what is sent."""
