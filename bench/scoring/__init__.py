"""Scores predictions, and reads and writes the files of predictions that scorers and test servers accept."""
