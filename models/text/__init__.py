"""From text files to a tokenised corpus on disk: layouts, pieces, shards, duplicates. `models.corpus` is the door."""
