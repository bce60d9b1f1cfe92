"""Sealed results of cells: how folders of records are written, packed, read and accepted as a baseline."""
