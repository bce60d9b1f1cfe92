"""The gate: is HEAD worse than BASE, by how much, and how sure is that?"""
