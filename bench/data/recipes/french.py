"""French: novels of ELTeC, 1840 to 1920.

    ptmbench data corpus french --data DIR

Novels of authors with one novel are held out, chosen as in `bench.data.recipes.english`.
"""

from ptmbench.bench.data import cleaning
from ptmbench.bench.data.recipes import CorpusRecipe, Source, listed

ELTEC = Source(
    name="eltec-fr",
    title="European Literary Text Collection, French novels 1840-1920, level 1, as plain text",
    licence="CC BY 4.0",
    url="https://github.com/COST-ELTeC/ELTeC-fra",
    files=listed("eltec-fr"),
    clean=cleaning.novel,
)

RECIPE = CorpusRecipe(
    summary="French novels of 1840 to 1920",
    version=1,
    sources=(ELTEC,),
    sha256="a1af33d64d80bae811479bb6231675d697eeff8aa572c6696e1f9e16024de799",
    held_out=(
        "eltec/fr/FRA00401_Allais.txt.gz",
        "eltec/fr/FRA01002_DelarueMardrus.txt.gz",
        "eltec/fr/FRA03302_Rattazzi.txt.gz",
        "eltec/fr/FRA05801_Mille.txt.gz",
        "eltec/fr/FRA07201_Montagne.txt.gz",
    ),
)
