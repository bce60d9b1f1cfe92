"""The rows of the survey's tables 1 to 4, as it prints them, and its two comparisons, reported and measured."""
