"""Metrics: pure functions of gold and predictions, equal to the official scorers to the last digit."""
