"""Records: the sealed result of a cell, how folders of them are written, packed, read and accepted as a baseline."""
