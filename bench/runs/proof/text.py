"""A synthetic corpus of any size, with every annotation that the project's objectives read."""

from collections.abc import Collection

import numpy as np

from ptmbench.models.objective import PAIRS
from ptmbench.models.text.corpus import Corpus
from ptmbench.models.text.media import Media
from ptmbench.models.text.tokenizers import Vocabulary

ENTITIES, WIDTH, REGIONS = 6, 12, 5
"""Number of entities, and the widths of their vectors and of the features of a region of a picture."""
_SENTENCES = 6  # per document; with pairs, each document is a pair


def vocabulary(size: int) -> Vocabulary:
    """Returns a vocabulary of ``size`` ids, two languages and `ENTITIES` entities."""
    symbols = {"languages": ("en", "xx"), "entities": tuple(f"Q{number}" for number in range(1, ENTITIES + 1))}
    return Vocabulary(size=size, symbols=symbols, widths={"entities": WIDTH, "regions": REGIONS})


def corpus(words: Vocabulary, needs: Collection[str], tokens: int, length: int) -> Corpus:
    """Returns a corpus of at least ``tokens`` tokens, for rows of ``length`` tokens and an objective that ``needs``
    these annotations.

    The ids of a sentence count upwards from a random one, so that there is something to learn. The first two words of
    each sentence mention an entity. The sentences of a pair are in two languages. A document with pictures has one to
    six regions.
    """
    rng = np.random.default_rng(0)
    together = 2 if PAIRS in needs else _SENTENCES
    shortest = max(4, length // 8)
    count = together * -(-tokens // (together * shortest))
    sizes = rng.integers(shortest, max(shortest + 1, length // 4), count)
    ends = np.concatenate([[0], np.cumsum(sizes)])
    begins, pieces = ends[:-1], words.size - words.first
    starts = rng.integers(0, pieces, count)
    ids = words.first + (np.repeat(starts - begins, sizes) + np.arange(ends[-1])) % pieces
    entities = np.zeros(len(ids), np.int32)
    entities[begins], entities[begins + 1] = 1 + starts % ENTITIES, -1 - starts % ENTITIES
    documents = np.arange(0, count + 1, together)
    vectors = np.pad(rng.normal(0, 1, (ENTITIES, WIDTH)), [(1, 0), (0, 0)]).astype(np.float32)
    return Corpus(
        ids=ids.astype(np.int32),
        sentences=ends,
        documents=documents,
        heads=np.ones(len(ids), bool),
        layers={"entities": entities, "languages": np.repeat(np.arange(count) % 2 + 1, sizes).astype(np.int32)},
        vectors={"entities": vectors},
        media=_pictures(len(documents) - 1, rng) if "regions" in needs else None,
    )


def _pictures(documents: int, rng: np.random.Generator) -> Media:
    """Returns a picture of one to six regions for each of ``documents`` documents."""
    ends = np.concatenate([[0], np.cumsum(1 + np.arange(documents) % 6)])
    numbers = {
        "regions": rng.normal(0, 1, ends[-1] * REGIONS).astype(np.float32),
        "boxes": np.tile([0.25, 0.25, 0.75, 0.5], ends[-1]).astype(np.float32),
    }
    return Media(ends, numbers, {"regions": REGIONS, "boxes": 4})
