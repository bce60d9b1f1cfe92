"""Arranges and compares records: the grid of rows and columns, the tables made from it, and the comparisons of rows."""
