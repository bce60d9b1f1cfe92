"""Runs: the graph of artefacts, the plan of a run, who does what next, and one cell from data to record."""
