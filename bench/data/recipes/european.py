"""The English, German and French corpora together, in this order.

ptmbench data corpus european --data DIR
"""

from ptmbench.bench.data.recipes import CorpusRecipe, english, french, german

_PARTS = (english.RECIPE, german.RECIPE, french.RECIPE)

RECIPE = CorpusRecipe(
    summary="The English, German and French corpora in one",
    version=1,
    sha256="eb297d5419912983187c93c29471e2b6180535a630207e7d1729e32b9e84b3a9",
    sources=tuple(source for part in _PARTS for source in part.sources),
    held_out=tuple(path for part in _PARTS for path in part.held_out),
)
