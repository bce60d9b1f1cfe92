"""The folder of the microworld: reproducible bytes and official formats."""

import json
import os
import re
import subprocess
import sys
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest

from ptmbench import tasks
from ptmbench.tasks.microworld import DEMO, VERSION, Sizes, make
from ptmbench.tasks.microworld.lexicon import lexicon
from ptmbench.tasks.task import DataError
from tests.tasks.conftest import SMALL

TINY = Sizes(corpus_tokens=200, people=10, train=8, dev=4, test=4, translations=4, wiki_tokens=300)
REPO = Path(__file__).resolve().parents[2]
READERS = ("cola", "sst2", "mrpc", "stsb", "rte", "qnli", "mnli", "mnli_mm", "copa", "conll2003", "squad11", "aeslc")
READERS += ("absa", "absa-pair-14lap", "absa-aesc-14lap")
QUESTIONS = ("word_similarity", "word_analogy")


def _bytes(folder: Path) -> dict[str, bytes]:
    return {str(file.relative_to(folder)): file.read_bytes() for file in sorted(folder.rglob("*")) if file.is_file()}


def _rows(data: Path, task: str, split: str) -> list:
    return tasks.load(task).examples(data, split)


def _words(text: str) -> set[str]:
    return set(re.findall(r"\w+", text))


# --- the folder ---------------------------------------------------------------------------------------------------


def test_same_bytes_in_another_process_with_another_hash_seed(tmp_path: Path) -> None:
    make(tmp_path / "one", seed=0, scale=TINY)
    code = (
        "from pathlib import Path; from ptmbench.tasks.microworld import Sizes, make; "
        f"make(Path({str(tmp_path / 'two')!r}), seed=0, scale={TINY!r})"
    )
    subprocess.run([sys.executable, "-c", code], check=True, cwd=REPO, env={**os.environ, "PYTHONHASHSEED": "77"})
    assert _bytes(tmp_path / "one") == _bytes(tmp_path / "two")


def test_another_seed_makes_a_different_microworld(tmp_path: Path) -> None:
    # Large enough that some words are frequent in both languages, because questions are about frequent words.
    scale = replace(TINY, corpus_tokens=4000, foreign=0.4)
    for seed in (0, 1):
        make(tmp_path / str(seed), seed=seed, scale=scale)
    one, other = _bytes(tmp_path / "0"), _bytes(tmp_path / "1")
    assert other.keys() == one.keys()
    assert not [name for name in one if other[name] == one[name]]


def test_source_file_has_name_version_seed_and_sizes(data: Path) -> None:
    source = json.loads((data / "SOURCE.json").read_text())
    assert source["name"] == "microworld" and source["version"] == VERSION and source["seed"] == 0
    assert Sizes(**source["sizes"]) == SMALL
    assert source["files"] == len(_bytes(data))


def test_changing_the_size_of_one_task_does_not_change_the_others(tmp_path: Path) -> None:
    make(tmp_path / "one", scale=TINY)
    make(tmp_path / "two", scale=replace(TINY, translations=10, corpus_tokens=500))
    one, two = _bytes(tmp_path / "one"), _bytes(tmp_path / "two")
    changed = {name for name in one if two[name] != one[name]}
    # Questions are about words of the corpus. So little text contains no word that analogies ask for.
    assert {name.split("/")[0] for name in changed} == {"SOURCE.json", "corpus", "multi30k", "pairs", "wordsim353"}


def test_make_refuses_a_folder_with_other_files(tmp_path: Path) -> None:
    (tmp_path / "thesis.txt").write_text("years of work")
    with pytest.raises(DataError, match="do not belong to a microworld"):
        make(tmp_path, scale=SMALL)
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.txt"]


def test_make_replaces_a_microworld_unless_it_has_foreign_files(tmp_path: Path) -> None:
    folder = tmp_path / "m"
    folder.mkdir()
    make(folder, seed=0, scale=TINY)
    make(folder, seed=1, scale=TINY)
    assert json.loads((folder / "SOURCE.json").read_text())["seed"] == 1
    (folder / "glue/notes.txt").write_text("mine")
    with pytest.raises(DataError, match="do not belong to a microworld"):
        make(folder, seed=2, scale=TINY)
    assert [path.name for path in tmp_path.iterdir()] == ["m"], "nothing is left beside the folder"


def test_a_failure_leaves_no_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("ptmbench.tasks.microworld.build._running_text", full)
    with pytest.raises(OSError, match="No space"):
        make(tmp_path / "m", scale=TINY)
    assert list(tmp_path.iterdir()) == []


def test_make_rejects_sizes_out_of_range(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="train=-1"):
        make(tmp_path / "m", scale=Sizes(train=-1))


# --- the formats --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("task", READERS)
def test_task_readers_read_the_microworld(data: Path, task: str) -> None:
    counts = {split: len(_rows(data, task, split)) for split in ("train", "dev")}
    assert counts == {"train": 400, "dev": 200}
    if "test" in tasks.load(task).files:
        assert len(_rows(data, task, "test")) == 200


def test_word_questions_use_words_of_the_corpus_and_answers_of_the_lexicon(data: Path, corpus: str) -> None:
    """The answers are checked against the lists of the lexicon, not against the code that wrote the file."""
    taught, words = set(corpus.split()), lexicon(0)
    alike, analogies = (tasks.load(name).examples(data, "test") for name in QUESTIONS)
    for example in alike:
        assert set(example.inputs) <= taught
    degrees = {frozenset(example.inputs): example.gold for example in alike}
    assert set(degrees.values()) == {0.0, 1.0, 2.0, 3.0, 5.0}
    for pair, degree in degrees.items():
        for side in (words.good, words.bad):
            assert degree == 3.0 or not pair <= set(side)
        if pair & set(words.good) and pair & set(words.bad):
            assert degree == 2.0
    assert all(degrees.get(frozenset((n.lemma, n.plural)), 5.0) == 5.0 for n in words.nouns)
    assert {example.gold.kind for example in analogies} == {"plural", "third-person", "past-tense", "kind-of-place"}
    what = {place.words[0]: place.noun.lemma for place in words.places}
    for example in analogies:
        a, b, c, d = *example.inputs, str(example.gold)
        assert {a, b, c, d} <= taught and len({a, b, c, d}) == 4
        if example.gold.kind == "kind-of-place":
            assert what[a] == b and what[c] == d
        if example.gold.kind == "past-tense":
            assert d == {"sleep": "slept"}.get(c, c + ("d" if c.endswith("e") else "ed"))


def test_answer_spans_are_at_their_offsets(data: Path) -> None:
    for example in _rows(data, "squad11", "dev"):
        for answer in example.gold:
            assert example.inputs[1][answer.start :].startswith(answer.text + ".")


def test_opinion_triplets_match_the_sentence(data: Path) -> None:
    """Checks the triplets against the sentence. A subject is at the start or after "the", "and" or "but", and before
    "is" or "was". "not" reverses the polarity of the next adjective. Every adjective is in one triplet."""
    words = lexicon(0)
    worth = dict.fromkeys(words.plain, 0) | words.valence
    seen = Counter()
    for example in _rows(data, "absa", "train"):
        tokens = example.inputs
        for first, last, start, end, polarity in example.gold:
            assert tokens[last + 1] in ("is", "was") and (
                first == 0 or tokens[first - 1].lower() in ("the", "and", "but")
            )
            negated = tokens[start] == "not"
            assert end == start + negated
            value = worth[tokens[end]] * (-1 if negated else 1)
            assert polarity == {1: "POS", 0: "NEU", -1: "NEG"}[value]
            seen[polarity, negated] += 1
        places = {end for *_, end, _ in example.gold}
        assert places == {i for i, word in enumerate(tokens) if word in worth}
    assert min(seen.values()) > 20 and len(seen) == 6
    pairs = _rows(data, "absa-pair-14lap", "train")
    assert [{one[:4] for one in e.gold} for e in _rows(data, "absa", "train")] == [set(e.gold) for e in pairs]


def test_tags_mark_only_names(data: Path) -> None:
    for example in _rows(data, "conll2003", "train"):
        for at, (word, tag) in enumerate(zip(example.inputs, example.gold, strict=True)):
            assert (tag != "O") == (word[0].isupper() and at > 0) or at == 0


def test_wikitext_has_the_requested_number_of_tokens(data: Path) -> None:
    assert len(_rows(data, "wikitext2", "test")) >= 2
    words = len((data / "wikitext-2/wiki.train.tokens").read_text().split())
    assert SMALL.wiki_tokens <= words <= 1.1 * SMALL.wiki_tokens + 200


def test_corpus_has_the_requested_number_of_tokens(corpus: str) -> None:
    assert 0 <= len(re.findall(r"\w+|[.,]", corpus)) - SMALL.corpus_tokens < 150
    assert "" not in corpus.removesuffix("\n\n").replace("\n\n", "\n").split("\n")


@pytest.mark.slow
def test_demo_sizes(tmp_path: Path) -> None:
    make(tmp_path / "demo", scale=DEMO)
    assert len(_rows(tmp_path / "demo", "qnli", "train")) == DEMO.train
    frequent = Counter(re.findall(r"\w+", (tmp_path / "demo/corpus/microworld.txt").read_text()))
    words = lexicon(0)
    assert min(frequent[w] for w in (*words.good, *words.bad, *words.women, *words.men)) > 50
