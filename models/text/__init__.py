"""From text files to a tokenised corpus on disk: tokenizers, layouts, pieces, shards, duplicates, annotation.

`models.text.corpus` and `models.text.tokenizers` are what other modules call.
"""
