"""From text files to a tokenised corpus on disk: tokenizers, layouts, pieces, shards, duplicates, annotation.

Other modules mostly call `models.text.corpus` and `models.text.tokenizers`.
"""
