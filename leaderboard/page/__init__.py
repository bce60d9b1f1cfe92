"""The page: what its template needs, worked out from the grid as plain values and inline SVG."""
