"""The leaderboard: makes tables, pages and verdicts from records. It does not depend on TensorFlow, models or tasks."""
