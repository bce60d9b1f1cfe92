"""Metrics: functions of gold and predictions whose values equal those of the official scorers to the last digit."""
