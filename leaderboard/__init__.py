"""The leaderboard: records in, tables, pages and verdicts out. It knows nothing of TensorFlow, models or tasks."""
