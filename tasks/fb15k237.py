"""FB15k-237 (survey, section 4.1): given an entity and a relation of Freebase, which entity is the tail or the head?

Toutanova & Chen, 2015: Observed versus latent features for knowledge base and text inference, CVSC. Licence: CC BY 4.0
(Freebase). Official files: train.txt, valid.txt, test.txt, ``head<TAB>relation<TAB>tail`` (272115, 17535 and 20466
triples; 14541 entities, 237 relations). Entities are identifiers such as /m/027rn.

The official release has no texts for these identifiers (its text_cvsc.txt and text_emnlp.txt hold relations between
entities found in sentences). The texts come from KG-BERT (Yao et al., 2019): ``entity2text.txt`` (required) and
``relation2text.txt`` (optional), in the folder data/FB15k-237 of github.com/yao8839836/kg-bert. The first has the names
of all 14951 entities of FB15k; only entities in the three files are candidates. If the second is missing, the text of a
relation is derived from its name. That folder also has the triples, as train.tsv, dev.tsv and test.tsv.

Questions and ranks are as in `tasks.wn18rr`.
"""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from ptmbench.tasks import wn18rr
from ptmbench.tasks.files import pick
from ptmbench.tasks.task import Example, Source
from ptmbench.tasks.triples import questions, texts

_SPLITS = {"train": "train.txt|train.tsv", "dev": "valid.txt|dev.tsv", "test": "test.txt|test.tsv"}
_ALL = (*_SPLITS.values(), "entity2text.txt")
FILES = {split: (name, *(other for other in _ALL if other != name)) for split, name in _SPLITS.items()}


def read(folder: Path, split: str) -> Iterator[Example]:
    """Two questions for each triple, in file order."""
    every, optional = [pick(folder, name) for name in _SPLITS.values()], folder / "relation2text.txt"
    relations = texts(optional) if optional.exists() else {}
    entities = texts(pick(folder, _ALL[-1]))
    yield from questions(pick(folder, FILES[split][0]), every, entities, relations)


TASK = replace(
    wn18rr.TASK,
    name="fb15k237",
    title="FB15k-237",
    source=Source(
        citation="Toutanova & Chen, 2015: Observed versus latent features for knowledge base and text inference",
        licence="CC BY 4.0",
        url="https://www.microsoft.com/en-us/download/details.aspx?id=52312",
        survey="4.1",
    ),
    folders=("FB15k-237", "fb15k-237"),
    files=FILES,
    read=read,
    notes="Texts of entities: entity2text.txt of KG-BERT (github.com/yao8839836/kg-bert, data/FB15k-237).",
    version=2,  # since only entities of the three files are candidates
)
