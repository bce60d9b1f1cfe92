"""FewRel (survey, section 4.1): which relation holds between two entities, after one or five examples of each?

Han et al., 2018: FewRel: a large-scale supervised few-shot relation classification dataset, EMNLP; Gao et al., 2019:
FewRel 2.0, EMNLP. Licence: MIT. Official files: one JSON object {relation: [{tokens, h: [name, id, [[positions]]], t:
as h}]}: train_wiki.json (64 relations), val_wiki.json (16, reported because the test relations are not public), and
val_nyt.json and val_pubmed.json from other domains.

An example is an episode: a sentence, and K solved ones for each of N relations. Episode i depends only on N, K and i,
so all models and seeds answer the same episodes. "fewrel" is 5-way 1-shot, and "fewrel-10-5" has N = 10 and K = 5.
"fewrel-nyt" and "fewrel-pubmed-5-5" report another domain. "fewrel-half" trains on the first ten relations of val_wiki
and reports the other six, for use without train_wiki. The head is marked by asterisks, the tail by #.
"""

import re
from collections.abc import Iterator
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np

from ptmbench.tasks.files import json_document, pick
from ptmbench.tasks.forms import Form, Marked
from ptmbench.tasks.metrics.accuracy import accuracy
from ptmbench.tasks.task import DataError, Download, Example, Source, Task, UnknownTask

EPISODES = {"train": 2000, "dev": 1000}
DOMAINS = {"": "val_wiki.json", "nyt": "val_nyt.json", "pubmed": "val_pubmed.json", "half": "val_wiki.json"}


def _files(domain: str) -> dict[str, tuple[str, ...]]:
    return {"dev": (DOMAINS[domain],), "train": ("val_wiki.json" if domain == "half" else "train_wiki.json",)}


def read_episodes(folder: Path, split: str, *, domain: str, way: int, shot: int) -> Iterator[Example]:
    """The episodes of ``split``. Ids count from 0."""
    path = pick(folder, _files(domain)[split][0])
    known = relations(path)
    if domain == "half":
        known = dict(list(known.items())[slice(10) if split == "train" else slice(10, None)])
    if len(known) < way or min(map(len, known.values())) <= shot:
        takes = f"{way}-way {shot}-shot episodes take {way} with more than {shot} sentences"
        raise DataError(f"{path} has {len(known)} relations for the {split} split; {takes}.")
    names = list(known)
    for episode in range(EPISODES[split]):
        rng = np.random.default_rng([int(split == "train"), way, shot, episode])
        drawn, right, inputs = rng.choice(len(names), way, replace=False), int(rng.integers(way)), []
        for place, relation in enumerate(names[i] for i in drawn):
            some = rng.choice(len(known[relation]), shot + (place == right), replace=False)
            texts = [known[relation][i] for i in some]
            inputs = [texts.pop(), *inputs] if place == right else inputs
            inputs += [Marked(text, text.marks, relation) for text in texts]
        yield Example(id=str(episode), inputs=tuple(inputs), gold=names[drawn[right]])


def relations(path: Path) -> dict[str, list[Marked]]:
    """The sentences of each relation. Both entities are marked at their first mention."""
    content, found = json_document(path), {}
    if not isinstance(content, dict) or not all(isinstance(rows, list) for rows in content.values()):
        raise DataError(f"{path} must be one JSON object from relations to lists of sentences.")
    for relation, rows in content.items():
        for number, row in enumerate(rows, start=1):
            try:
                found.setdefault(relation, []).append(_marked(row))
            except (IndexError, KeyError, TypeError, ValueError) as error:
                what = f"not in FewRel's format ({error!r:.80}). Fetch the official file again, or correct it."
                raise DataError(f"{path}, {relation}, sentence {number}: {what}") from error
    return found


def _marked(row: dict[str, Any]) -> Marked:
    words, pieces, marks = row["tokens"], [], [0, 0]
    spans = [(row[name][2][0], sign) for name, sign in (("h", "*"), ("t", "#"))]
    if not all(0 <= places[0] <= places[-1] < len(words) for places, _ in spans):
        raise ValueError("an entity outside the sentence")
    for place, word in enumerate(words):
        for number, (places, sign) in enumerate(spans):
            if place == places[0]:
                marks[number] = len(" ".join([*pieces, ""]))
                pieces.append(sign)
        pieces += [word, *(sign for places, sign in spans if place == places[-1])]
    return Marked(" ".join(pieces), (marks[0], marks[1]))


read = partial(read_episodes, domain="", way=5, shot=1)


@cache
def variant(way: str) -> Task:
    """The task of "10-5" (N, then K), "pubmed" or "pubmed-10-5". "5-1" is the default task."""
    found = re.fullmatch(r"(nyt|pubmed|half|)-?(?:(\d{1,2})-(\d{1,2}))?", way)
    domain, n, k = (found[1], int(found[2] or 5), int(found[3] or 1)) if found else ("", 0, 0)
    if n < 2 or k < 1:
        raise UnknownTask(f"FewRel has no '{way}'. Write a domain (nyt, pubmed, half), N and K: fewrel-half-5-1.")
    default = (domain, n, k) == ("", 5, 1)
    return Task(
        name="fewrel" if default else f"fewrel-{way}",
        title=f"FewRel {f'{domain} ' * bool(domain)}{n}-way {k}-shot",
        form=Form.FEW_SHOT,
        source=Source(
            citation="Han et al., 2018: FewRel: a large-scale supervised few-shot relation classification dataset",
            licence="MIT",
            url="https://github.com/thunlp/FewRel",
            survey="4.1",
        ),
        folders=("fewrel", "FewRel"),
        files=_files(domain),
        read=read if default else partial(read_episodes, domain=domain, way=n, shot=k),
        metrics=(accuracy,),
        headline="accuracy",
        chance=100.0 / n,
        downloads=tuple(
            Download(url=f"https://raw.githubusercontent.com/thunlp/FewRel/master/data/{name}", to=f"fewrel/{name}")
            for name in ("train_wiki.json", "val_wiki.json", "val_nyt.json", "val_pubmed.json")
        ),
        notes="Trained and reported on relations of val_wiki: no published setting." * (domain == "half"),
    )


TASK = variant("5-1")
