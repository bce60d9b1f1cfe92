"""Records arranged and compared: the grid of rows and columns, the tables made of it, and what may be said of them."""
