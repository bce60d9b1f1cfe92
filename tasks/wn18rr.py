"""WN18RR (survey, section 4.1): given a word sense and a relation, which word sense is the tail or the head?

Dettmers et al., 2018: Convolutional 2D knowledge graph embeddings, AAAI, without the inverse facts of WN18 (Bordes et
al., 2013). WordNet's licence. Official files: train.txt, valid.txt, test.txt, ``head<TAB>relation<TAB>tail`` with
numbers of synsets (40943 synsets, 11 relations). Texts of the synsets come from KG-BERT's entity2text.txt (Yao et al.,
2019), or from a folder ``text`` with the same rows in synset names (land_reform.n.01), of which the word and the part
of speech are used.

Each triple is a question about its tail and one about its head, with all 40943 candidates. Other right answers in any
of the three files are left out ("filtered"), and ties share the middle rank. KG-BERT reads every triple with every
candidate, 256 million texts for the test set. Here, question and candidate are encoded separately, as in SimKGC (Wang
et al., 2022); see `bench.adapt.heads.ranking`.
"""

from collections.abc import Iterator
from itertools import zip_longest
from pathlib import Path

from ptmbench.tasks.files import malformed, pick
from ptmbench.tasks.forms import Form
from ptmbench.tasks.metrics.ranks import directions, ranking
from ptmbench.tasks.task import DataError, Example, Source, Task
from ptmbench.tasks.triples import questions, texts, triples

_SPLITS = {"train": "train.txt|train.tsv", "dev": "valid.txt|dev.tsv", "test": "test.txt|test.tsv"}
_ALL = (*_SPLITS.values(), "entity2text.txt|text")
FILES = {split: (name, *(other for other in _ALL if other != name)) for split, name in _SPLITS.items()}
"""The file of the split, then the other files, whose triples are also right answers."""
_KINDS = {"n": "noun", "v": "verb", "a": "adjective", "s": "adjective", "r": "adverb"}


def read(folder: Path, split: str) -> Iterator[Example]:
    """Two questions for each triple, in file order."""
    every = [pick(folder, name) for name in _SPLITS.values()]
    found = pick(folder, _ALL[-1])
    entities = texts(found) if found.is_file() else _texts_from_names(every, found)
    yield from questions(pick(folder, FILES[split][0]), every, entities, {})


def _texts_from_names(every: list[Path], folder: Path) -> dict[str, str]:
    """The texts of all entities, from the files of the same triples in names."""
    found: dict[str, str] = {}
    for path in every:
        other = folder / path.name
        for ours, theirs in zip_longest(triples(path), triples(other)):
            if ours is None or theirs is None:
                raise DataError(f"{other} has another number of triples than {path}, but they must match one to one.")
            (_, ours), (line, names) = ours, theirs
            if ours[1] != names[1]:
                raise malformed(other, line, f"its relation differs from the relation on the same line of {path.name}.")
            found |= {ours[i]: _words(names[i]) for i in (0, 2)}
    return found


def _words(name: str) -> str:
    """ "land_reform.n.01" in words: "land reform , noun"."""
    word, _, rest = name.rpartition(".")[0].rpartition(".")
    return f"{word.replace('_', ' ')} , {_KINDS.get(rest, rest)}" if word else name.replace("_", " ")


TASK = Task(
    name="wn18rr",
    title="WN18RR",
    form=Form.RANKING,
    source=Source(
        citation="Dettmers et al., 2018: Convolutional 2D knowledge graph embeddings",
        licence="WordNet's licence",
        url="https://github.com/TimDettmers/ConvE",
        survey="4.1",
    ),
    folders=("WN18RR", "wn18rr"),
    files=FILES,
    read=read,
    metrics=(ranking, directions),
    headline="mrr",
    report="test",
    version=2,  # since candidates that a model cannot distinguish tie
)
