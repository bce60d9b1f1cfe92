"""German: novels of ELTeC, 1840 to 1920.

    ptmbench data corpus german --data DIR

Novels of authors with one novel are held out, chosen as in `bench.data.recipes.english`.
"""

from ptmbench.bench.data import cleaning
from ptmbench.bench.data.recipes import CorpusRecipe, Source, listed

ELTEC = Source(
    name="eltec-de",
    title="European Literary Text Collection, German novels 1840-1920, level 1, as plain text",
    licence="CC BY 4.0",
    url="https://github.com/COST-ELTeC/ELTeC-deu",
    files=listed("eltec-de"),
    clean=cleaning.novel,
)

RECIPE = CorpusRecipe(
    summary="German novels of 1840 to 1920",
    version=1,
    sources=(ELTEC,),
    sha256="92419e2c71325e606566230b9916184a46dcaf0587b328aaecfeff1cb124e17d",
    held_out=(
        "eltec/de/DEU052.txt.gz",
        "eltec/de/DEU068.txt.gz",
        "eltec/de/DEU074.txt.gz",
        "eltec/de/DEU076.txt.gz",
    ),
)
