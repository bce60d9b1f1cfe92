"""Makes the data folder: defines the splits and their half of the lexicon, and writes the files."""

import json
import os
import random
import re
import shutil
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

from ptmbench.tasks.microworld import documents, judgements, opinions, pairs, reading, scenes, vocabulary, writers
from ptmbench.tasks.microworld.grammar import english, sentence
from ptmbench.tasks.microworld.lexicon import Lexicon, lexicon
from ptmbench.tasks.microworld.meaning import Sentence
from ptmbench.tasks.microworld.mowari import mowari
from ptmbench.tasks.microworld.world import world
from ptmbench.tasks.task import DataError

VERSION = 1
"""Increased whenever the same (seed, sizes) gives other bytes. Scores of different versions may not be compared."""


@dataclass(frozen=True, kw_only=True)
class Sizes:
    """The sizes of the data, in rows, or in words for the fields with "tokens"."""

    corpus_tokens: int = 400_000
    foreign: float = 0.05
    """The share of corpus documents in Mowari."""
    people: int = 400
    train: int = 800
    dev: int = 300
    test: int = 300
    translations: int = 2000
    """English-Mowari training pairs. dev and test have the same sizes as in the other tasks."""
    wiki_tokens: int = 40_000
    """Training tokens of the language-modelling task. Its dev and test sets have a tenth each."""
    scenes: int = 1000
    """The number of pictures in the corpus of captions. The task with pictures has as many rows as the others."""


DEMO = Sizes()
TWO_WAY = ("entailment", "not_entailment")
THREE_WAY = ("entailment", "contradiction", "neutral")


class _Split:
    """One labelled split, with its own random generator, half of the lexicon and world."""

    def __init__(self, seed: int, words: Lexicon, task: str, split: str, rows: int, taken: set[Any]) -> None:
        """``taken`` holds the items of the task's other splits, which must not be repeated here."""
        self.rng = random.Random(f"microworld/{VERSION}/{seed}/{task}/{split}")
        self.rows, self.taken = rows, taken
        # A tenth of the dev and test items use shown words, so that an analysis can compare familiar and new words.
        parts = (words.shown(),) if split == "train" else (words.held(), words.shown())
        self.tellers = [documents.Teller(self.rng, part, world(self.rng, part, people=200)) for part in parts]

    def draw(self, make: Callable[[random.Random, Lexicon], Any], *labels: Any) -> list[Any]:
        """Draws different items with ``make``, a function of a random generator and a lexicon.

        There are ``rows`` items, with the same number for each of ``labels``.
        """
        return self.draw_from_teller(lambda teller: make(teller.rng, teller.lexicon), *labels)

    def draw_from_teller(self, make: Callable[[documents.Teller], Any], *labels: Any) -> list[Any]:
        """Like `draw`, for a function of a teller, which also has a world.

        Returns fewer items only if ``make`` does not produce enough different ones.
        """
        items: list[Any] = []
        wanted = {label: self.rows // len(labels) + (i < self.rows % len(labels)) for i, label in enumerate(labels)}
        for _ in range(20 * self.rows + 100):
            if len(items) >= self.rows:
                break
            item = make(self.tellers[-1] if self.rng.random() < 0.1 else self.tellers[0])
            if item in self.taken or (labels and not wanted[item.label]):
                continue
            if labels:
                wanted[item.label] -= 1
            self.taken.add(item)
            items.append(item)
        self.rng.shuffle(items)
        return items


def make(folder: Path, *, seed: int = 0, scale: Sizes = DEMO) -> None:
    """Writes the microworld into ``folder``, completely or not at all. Replaces a microworld that is already there.

    Raises `DataError` if the folder holds anything else, so that no other files are overwritten, or if a size is out of
    range.
    """
    folder = Path(folder).absolute()
    for field, value in asdict(scale).items():
        if value < 0 or (field == "people" and value < 2) or (field == "foreign" and value >= 1):
            raise DataError(f"microworld: {field}={value} is out of range; see `Sizes` for what each size means.")
    _check(folder)
    folder.parent.mkdir(parents=True, exist_ok=True)
    fresh = Path(tempfile.mkdtemp(prefix=f".{folder.name}-", dir=folder.parent))
    try:
        fresh.chmod(0o755)
        _fill(fresh, seed, scale)
        files = sum(1 for path in fresh.rglob("*") if path.is_file()) + 1
        source = {"name": "microworld", "version": VERSION, "seed": seed, "sizes": asdict(scale), "files": files}
        writers.write(fresh / "SOURCE.json", [json.dumps(source, indent=1)])
        _move_into_place(fresh, folder)
    finally:
        shutil.rmtree(fresh, ignore_errors=True)


def _check(folder: Path) -> None:
    """Raises `DataError` unless ``folder`` is missing, empty, or exactly a microworld that this module wrote."""
    if folder.is_symlink() or (folder.exists() and not folder.is_dir()):
        raise DataError(f"{folder} is not an ordinary folder. Name a new or empty folder for the microworld.")
    if not folder.exists() or not any(folder.iterdir()):
        return
    try:
        source = json.loads((folder / "SOURCE.json").read_text(encoding="utf-8"))
        ours = source["name"] == "microworld" and source["files"] == sum(
            1 for path in folder.rglob("*") if not path.is_dir()
        )
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        ours = False
    if not ours:
        raise DataError(f"{folder} holds files that do not belong to a microworld. Name a new or empty folder.")


def _move_into_place(fresh: Path, folder: Path) -> None:
    """Moves the finished folder into place. The old one is deleted only after that, and restored if the move fails."""
    old = fresh.with_name(fresh.name + "-old")
    if folder.exists():
        os.replace(folder, old)
    try:
        os.replace(fresh, folder)
    except OSError:
        if old.exists():
            os.replace(old, folder)
        raise
    shutil.rmtree(old, ignore_errors=True)


def _fill(root: Path, seed: int, sizes: Sizes) -> None:
    words = lexicon(seed)
    rows = {"train": sizes.train, "dev": sizes.dev, "test": sizes.test}

    def splits(task: str, *names: str) -> Iterator[tuple[str, _Split]]:
        taken: set[Any] = set()
        for name in names or writers.SPLITS:
            yield name, _Split(seed, words, task, name, rows[name.split("_")[0]], taken)

    for name, split in splits("CoLA"):
        split.rows //= 2
        judged = [one for pair in split.draw(judgements.acceptability) for one in pair]
        split.rng.shuffle(judged)
        writers.cola(root / "glue/CoLA", name, judged)
    for name, split in splits("SST-2"):
        writers.sst2(root / "glue/SST-2", name, split.draw(judgements.sentiment, "0", "1"))
    for name, split in splits("MRPC"):
        writers.mrpc(root / "glue/MRPC", name, split.draw(pairs.paraphrase, "0", "1"))
    for name, split in splits("STS-B"):
        writers.stsb(root / "glue/STS-B", name, split.draw(pairs.similarity))
    for name, split in splits("RTE"):
        judged = split.draw(pairs.entailment, *TWO_WAY)
        writers.indexed_pairs(root / "glue/RTE", name, judged, ("sentence1", "sentence2"))
    for name, split in splits("QNLI"):
        writers.indexed_pairs(
            root / "glue/QNLI", name, split.draw_from_teller(reading.answers, *TWO_WAY), ("question", "sentence")
        )
    for name, split in splits("MNLI", "train", "dev_matched", "dev_mismatched", "test_matched", "test_mismatched"):
        writers.mnli(root / "glue/MNLI", name, split.draw(pairs.three_way, *THREE_WAY), "microworld")
    for name, split in splits("COPA"):
        file = root / f"superglue/COPA/{'val' if name == 'dev' else name}.jsonl"
        writers.copa(file, split.draw(pairs.choice, 0, 1), labelled=name != "test")
    for name, split in splits("CoNLL-2003"):
        sentences = split.draw_from_teller(judgements.sentence_with_names)
        file = {"train": "eng.train", "dev": "eng.testa", "test": "eng.testb"}[name]
        writers.conll(
            root / "conll2003" / file, (map(sentence, sentences[i : i + 8]) for i in range(0, len(sentences), 8))
        )
    for name, split in splits("SQuAD", "train", "dev"):
        writers.squad(
            root / f"squad/{name}-v1.1.json", reading.paragraphs(split.draw_from_teller(reading.paragraph), split.rows)
        )
    for name, split in splits("ABSA"):
        writers.opinions(root / f"absa/pengb/14lap/{name}_convert.json", split.draw(opinions.review))
    for name, split in splits("AESLC"):
        writers.letters(
            root / "aeslc/enron_subject_line" / name, split.draw_from_teller(reading.letter), annotated=name != "train"
        )
    for name in judgements.CONTRASTS:
        for _, split in splits(f"BLiMP/{name}", "test"):
            drawn = split.draw(partial(judgements.contrast, name))
            writers.minimal_pairs(root / f"blimp/data/microworld_{name}.jsonl", drawn, name)
    _running_text(root, seed, sizes, words)
    for name, count in rows.items():
        judged = scenes.labelled_rows(random.Random(f"microworld/{VERSION}/{seed}/NLVR/{name}"), count)
        writers.nlvr(root / f"nlvr/{name}/{name}.json", judged)
    captioned = scenes.caption_scenes(random.Random(f"microworld/{VERSION}/{seed}/captions"), sizes.scenes)
    writers.captions(root / "scenes/microworld.txt", list(captioned))


def _running_text(root: Path, seed: int, sizes: Sizes, words: Lexicon) -> None:
    """Writes the files that use the whole lexicon: the corpus, the translations, a corpus of pairs, the tasks about
    single words, and the language-modelling task."""

    def teller(task: str) -> documents.Teller:
        rng = random.Random(f"microworld/{VERSION}/{seed}/{task}")
        return documents.Teller(rng, words, world(rng, words, people=sizes.people))

    corpus = list(documents.corpus(teller("corpus"), tokens=sizes.corpus_tokens, foreign=sizes.foreign))
    writers.write(root / "corpus/microworld.txt", (line for document in corpus for line in (*document, "")))

    speaker, meanings = teller("Multi30k"), dict[Sentence, None]()
    parts = {"train": sizes.translations, "val": sizes.dev, "test_2016_flickr": sizes.test}
    for _ in range(20 * sum(parts.values())):
        if len(meanings) >= sum(parts.values()):
            break
        meanings[speaker.rng.choice(speaker.document())] = None
    rest = list(meanings)
    tested = {english(meaning) for meaning in rest[parts["train"] :]}
    for name, count in parts.items():
        part, rest = rest[:count], rest[count:]
        writers.write(root / f"multi30k/{name}.en", map(english, part))
        writers.write(root / f"multi30k/{name}.mw", map(mowari, part))
    translated = documents.pairs(teller("pairs"), tokens=sizes.corpus_tokens // 4, without=tested)
    writers.write(root / "pairs/microworld.en-mw.pairs.tsv", map("\t".join, translated))

    rng = random.Random(f"microworld/{VERSION}/{seed}/words")
    known = vocabulary.learnable_words(corpus)
    lines = [
        f"{one},{other},{similarity:g}"
        for one, other, similarity in vocabulary.similar_pairs(rng, words, known, sizes.test)
    ]
    writers.write(root / "wordsim353/combined.csv", ["Word 1,Word 2,Human (mean)", *lines])
    writers.write(root / "google_analogy/questions-words.txt", vocabulary.analogies(rng, words, known))
    rng = random.Random(f"microworld/{VERSION}/{seed}/dictionary")
    known = vocabulary.learnable_words([re.sub(r"[.,]", "", line).lower() for line in document] for document in corpus)
    for name, lines in vocabulary.dictionary(rng, words, known).items():
        writers.write(root / f"muse/mw-en.{name}.txt", lines)

    writer = teller("WikiText-2")
    for name, share in (("train", 1.0), ("valid", 0.1), ("test", 0.1)):
        writers.wikitext(
            root / f"wikitext-2/wiki.{name}.tokens", reading.articles(writer, int(share * sizes.wiki_tokens))
        )
