"""The page: prepares the grid for its template, as plain values and inline SVG."""
