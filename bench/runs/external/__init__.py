"""Systems from elsewhere: records of predictions that were made elsewhere, and of models behind a user's adapter file.

Both make records of the *external* division. `records` is what they share, `predictions` does ``ptmbench record``, and
`evaluation` does ``ptmbench evaluate --adapter``, with `adapter` as the contract of the file.
"""
