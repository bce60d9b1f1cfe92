"""English: 19th-century novels and Wikipedia articles, 16.8 million words.

    ptmbench data corpus english --data DIR

ELTeC comes first because its texts have the fewest typing errors. Three of its novels are in books_en too, and ELTeC's
versions are kept.

WikiText-2's validation and test articles are held out, and so are four novels of ELTeC. Authors with one novel in ELTeC
and none in books_en are sorted by the SHA-256 of their family names (in small letters, UTF-8). Their novels are held
out in this order until they have 3 % of ELTeC's words.

Where the licences are stated:

- ELTeC: CC BY 4.0, in the notes that come with the plain text.
- books_en: its README states none. The years 1839 to 1915 stand in the file names, and works that were published more
  than 95 years ago are in the public domain in the USA. ELTeC's table en.tsv has the years of life of 13 of the 21
  authors. Forster died in 1970, and the EU protects works for 70 years after the author's death; the other twelve died
  by 1936. No file has the years of Burnett, Ford, Haggard, James, Kipling, Meredith, Schreiner and Stevenson, so the
  recipe says nothing about their novels in the EU.
- WikiText-2: no file has a licence. The version is the one that Wikipedia's texts had in 2016.
"""

from ptmbench.bench.data import cleaning
from ptmbench.bench.data.recipes import CorpusRecipe, Source, listed

ELTEC = Source(
    name="eltec-en",
    title="European Literary Text Collection, English novels 1840-1920, level 1, as plain text",
    licence="CC BY 4.0",
    url="https://github.com/COST-ELTeC/ELTeC-eng",
    files=listed("eltec-en"),
    clean=cleaning.novel,
)
BOOKS = Source(
    name="books_en",
    title="26 of the 100 English Novels 1.4, 1839-1915 (Computational Stylistics Group)",
    licence="none stated; public domain in the USA; in the EU Forster's novel is protected until the end of 2040",
    url="https://github.com/computationalstylistics/100_english_novels",
    files=listed("books_en"),
    clean=cleaning.book,
)
WIKITEXT = Source(
    name="wikitext-2",
    title="WikiText-2: verified good and featured articles of Wikipedia (Merity et al., 2017)",
    licence="CC BY-SA 3.0",
    url="https://wikitext.smerity.com/wikitext-2-v1.zip",
    files=listed("wikitext-2"),
    clean=cleaning.articles,
)

RECIPE = CorpusRecipe(
    summary="English novels of 1839 to 1920 and Wikipedia articles",
    version=1,
    sources=(ELTEC, BOOKS, WIKITEXT),
    sha256="39841b72ccddfdee5c18fa2da9694c44d91d2bf2c9e106c5ea1db8ba515f8612",
    held_out=(
        "eltec/en/ENG18741_Bulwer.txt.gz",
        "eltec/en/ENG18820_Anstey.txt.gz",
        "eltec/en/ENG18850_Rutherford.txt.gz",
        "eltec/en/ENG18931_Harraden.txt.gz",
        "wikitext-2/wiki.test.tokens",
        "wikitext-2/wiki.valid.tokens",
    ),
)
