"""Sentence-image prediction: are both captions of the same picture? Li et al. (2019), section 3.3.

    L_SIP = - ln p(both are | pooled vector),  with as many drawn second captions as true ones

The first caption belongs to the picture. The second one is another caption of it in half of the rows, and a caption of
another picture in the other half. Every caption is the first one once per epoch. In the authors' code, all captions of
other pictures are equally likely. Here all other pictures are equally likely, and then all captions of the picture.
"""

from typing import Any

import numpy as np

from ptmbench.models.layers.heads import ClassifierConfig
from ptmbench.models.objective import Batch
from ptmbench.models.objectives.nsp import NextSentence
from ptmbench.models.objectives.sampling import TokenRuns, generator, take
from ptmbench.models.text.corpus import Corpus
from ptmbench.models.text.pieces import CorpusUnfit
from ptmbench.models.text.tokenizers import Vocabulary

DRAWN = 0.5
"""The share of rows whose second caption is of another picture."""


class Captions:
    """[CLS] A [SEP] B [SEP] with the first ``room`` regions of the picture of A. The captions of a picture are the
    sentences of its document; documents with one sentence are skipped.

    The longer caption loses its last token until both fit; if they are equally long, the second does, as in BERT's
    code. Shorter rows are padded.
    """

    def __init__(self, corpus: Corpus, vocabulary: Vocabulary, length: int, room: int):
        if length < 8:
            raise ValueError(f"Rows of {length} tokens are too short to hold two captions and three marks: use 8.")
        self.corpus, self.vocabulary, self.length, self.room = corpus, vocabulary, length, room
        if corpus.media is None or "regions" not in corpus.media.widths:
            raise CorpusUnfit(
                "This model learns from pictures, and the corpus has none. Name them in the sidecars: `ptmbench data "
                "annotate TEXT --lines FILE --pictures FILE`; docs/annotations.md shows the format."
            )
        bounds = corpus.documents.take(np.arange(len(corpus.documents)), mode="wrap").astype(np.int64)
        sizes = np.diff(bounds)
        self.pictured = np.flatnonzero((corpus.media.counts() > 0) & (sizes > 1))  # documents, int64 [P]
        if len(self.pictured) < 2:
            raise CorpusUnfit(
                f"The corpus has {len(self.pictured)} documents with a picture and two captions or more. This model "
                "learns to tell the captions of two pictures apart. Use a corpus with at least two such documents."
            )
        self.first, self.sizes = bounds[self.pictured], sizes[self.pictured]  # [P]
        self.owner = np.repeat(np.arange(len(self.pictured)), self.sizes)  # [C] the picture of each caption
        self.place = np.arange(len(self.owner)) - np.repeat(np.cumsum(self.sizes) - self.sizes, self.sizes)
        self.order = TokenRuns(self.owner, 1)

    def __call__(self, step: int, batch: int, seed: int) -> tuple[Batch, np.random.Generator]:
        """Returns the rows of ``step``, and the random generator for later draws.

        ``tokens`` and ``segments`` int32 [B, T], ``next`` int32 [B]: 1 where B belongs to the picture too, ``regions``
        float32 [B, room, F] and ``boxes`` float32 [B, room, 4].
        """
        rng = generator(seed, step)
        caption = self.order.starts(step, batch, seed)
        picture, place = self.owner[caption], self.place[caption]
        related = rng.random(batch) >= DRAWN
        count = len(self.pictured)
        other = (picture + 1 + (rng.random(batch) * (count - 1)).astype(np.int64)) % count
        draw = rng.random(batch)
        again = (place + 1 + (draw * (self.sizes[picture] - 1)).astype(np.int64)) % self.sizes[picture]
        drawn = self.first[other] + (draw * self.sizes[other]).astype(np.int64)
        second = np.where(related, self.first[picture] + again, drawn)
        rows = self._laid(self.first[picture] + place, second)
        pictures = self.corpus.media.of(self.pictured[picture], self.room)
        return rows | pictures | {"next": related.astype(np.int32)}, rng

    def _laid(self, first: np.ndarray, second: np.ndarray) -> Batch:
        """Returns ``tokens`` and ``segments`` of the sentences ``first`` and ``second`` [B]."""
        bounds, room, column = self.corpus.sentences, self.length - 3, np.arange(self.length)[None]
        begins = [bounds.take(one, mode="wrap").astype(np.int64)[:, None] for one in (first, second)]
        a, b = (
            bounds.take(one + 1, mode="wrap").astype(np.int64)[:, None] - begin
            for one, begin in zip((first, second), begins, strict=True)
        )
        a = np.minimum(a, np.maximum(room - b, -(-room // 2)))
        b = np.minimum(b, room - a)
        inside = column <= a
        where = np.where(inside, begins[0] + column - 1, begins[1] + column - a - 2)
        tokens = take(self.corpus.ids, where)
        tokens[:, 0] = self.vocabulary.cls
        tokens[(column == a + 1) | (column == a + b + 2)] = self.vocabulary.sep
        present = column <= a + b + 2
        return {"tokens": tokens * present, "segments": ((column > a + 1) & present).astype(np.int32)}


class SentenceImage(NextSentence):
    """The head: two scores from the pooled vector [B, D]; class 1 is "both belong to the picture"."""

    reports = ("sip_loss", "sip_accuracy")

    def __init__(self, config: ClassifierConfig, name: str = "sip", **kwargs: Any):
        super().__init__(config, name=name, **kwargs)

    def call(self, encoding: Any, batch: dict[str, Any], totals: dict[str, Any]) -> dict[str, Any]:
        found = super().call(encoding, batch, totals)
        return {name.replace("nsp_", "sip_"): value for name, value in found.items()}
