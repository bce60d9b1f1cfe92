"""Sentiment transfer: the published layout, and the parts of its score, checked with sacrebleu and by hand."""

import random
from pathlib import Path

import pytest
import sacrebleu

from ptmbench import tasks
from ptmbench.bench import baselines
from ptmbench.bench.adapt import attributes
from ptmbench.bench.adapt.attributes import Salience, runs
from ptmbench.bench.errors import NotApplicable
from ptmbench.bench.runs import plan
from ptmbench.bench.scoring import score_files
from ptmbench.tasks.forms import Rewriting
from ptmbench.tasks.metrics.rewriting import Judge, rewriting
from ptmbench.tasks.task import DataError, Example, MissingData, UnknownTask

UNKIND = ["the soup was awful .", "awful service , and slow .", "i will never come back .", "never again !"]
KIND = ["the soup was lovely .", "lovely service , and quick .", "i will always come back .", "always again !"]


@pytest.fixture
def data(tmp_path: Path) -> Path:
    folder = tmp_path / "sentiment_transfer/yelp"
    folder.mkdir(parents=True)
    for split in ("train", "dev"):
        for label, lines in (("0", UNKIND), ("1", KIND)):
            (folder / f"sentiment.{split}.{label}").write_text("".join(line + "\n" for line in lines))
    (folder / "reference.0").write_text("the rice was awful .\tThe rice was lovely.\nnever !\talways \u2028 !\n")
    (folder / "reference.1").write_text("lovely staff .\tthe staff is awful .\n")
    return tmp_path


def test_published_layout_is_read(data: Path) -> None:
    task = tasks.load("sentiment_transfer")
    train, test = task.examples(data, "train"), task.examples(data, "test")
    assert [(e.id, e.inputs, e.gold) for e in train[3:5]] == [
        ("0.3", ("never again !", "1"), None),
        ("1.0", ("the soup was lovely .", "0"), None),
    ]
    assert [(e.id, *e.inputs, tuple(e.gold)) for e in test] == [
        ("0.0", "the rice was awful .", "1", ("The rice was lovely.",)),
        ("0.1", "never !", "1", ("always \u2028 !",)),
        ("1.0", "lovely staff .", "0", ("the staff is awful .",)),
    ]
    assert [(e.gold.source, e.gold.wanted) for e in test] == [e.inputs for e in test]
    assert task.extra["salience"] == 15 and tasks.load("sentiment_transfer-amazon").extra["salience"] == 5.5
    assert tasks.load("sentiment_transfer-amazon").folders[0].endswith("amazon")
    with pytest.raises(UnknownTask, match="yelp and amazon"):
        tasks.load("sentiment_transfer-films")
    (data / "sentiment_transfer/yelp/reference.1").write_text("fine .\tbad .\nlovely staff .\n")
    with pytest.raises(DataError, match=r"reference.1, line 2: a sentence, a tab"):
        task.examples(data, "test")
    (data / "sentiment_transfer/yelp/reference.1").unlink()
    with pytest.raises(MissingData, match="reference.1"):
        task.examples(data, "test")


def test_scores_come_from_the_judge_and_sacrebleu(data: Path) -> None:
    task = tasks.load("sentiment_transfer")
    test = task.examples(data, "test")
    gold, sources = [e.gold for e in test], [e.inputs[0] for e in test]
    written = ["the rice was lovely .", "never !", "awful staff ."]
    found = task.score(gold, written)
    references = [[one[0] for one in gold]]
    assert found["bleu"] == pytest.approx(sacrebleu.corpus_bleu(written, references, force=True).score)
    assert found["self_bleu"] == pytest.approx(sacrebleu.corpus_bleu(written, [sources], force=True).score)
    assert found["accuracy"] == pytest.approx(200 / 3) and found["judge"] == 100.0
    assert found["headline"] == pytest.approx((found["accuracy"] + found["bleu"]) / 2)
    copied = task.score(gold, sources)
    assert copied["accuracy"] == 0.0 and copied["self_bleu"] == pytest.approx(100.0)
    with pytest.raises(DataError, match="Name the data set's folder as gold"):
        rewriting([("a text",)], ["a text"])
    assert "nrefs:1" in rewriting.signatures(gold)["bleu"]


def test_each_text_has_its_own_judge_which_is_trained_once() -> None:
    calls: list[int] = []

    def texts() -> tuple[list[str], list[str]]:
        calls.append(1)
        return UNKIND + KIND, ["0"] * 4 + ["1"] * 4

    judge = Judge(texts)
    assert not calls and judge(["an awful evening", "a lovely evening"]) == ["0", "1"] and judge(["always"]) == ["1"]
    assert calls == [1]
    other = [Rewriting(("x",), source="s", wanted=label, judge=lambda texts: ["1"] * len(texts)) for label in "01"]
    mixed = [*other, Rewriting(("x",), source="awful", wanted="1", judge=judge)]
    assert rewriting(mixed, ["a", "b", "lovely"])["accuracy"] == pytest.approx(200 / 3)
    assert rewriting(mixed, ["a", "b", "lovely"])["judge"] == pytest.approx(200 / 3)
    for unread in ((["a"], ["0"]), (["a", " "], ["0", "1"]), (["", ""], ["0", "1"])):
        with pytest.raises(DataError, match="texts of two labels"):
            Judge(lambda unread=unread: unread)(["a"])


def test_prediction_files_are_scored_against_the_data_folder(data: Path, tmp_path: Path) -> None:
    folder, file = data / "sentiment_transfer/yelp", tmp_path / "predictions.txt"
    file.write_text("the rice was lovely .\nalways !\nawful staff .\n")
    found = score_files.score("sentiment_transfer", folder, file)
    assert (found["examples"], found["accuracy"]) == (3, 100.0)
    with pytest.raises(DataError, match="Name the folder of Sentiment transfer Yelp"):
        score_files.score("sentiment_transfer", folder / "reference.0", file)
    file.write_text("one line\n")
    with pytest.raises(DataError, match="has 3 references but .* has 1 lines"):
        score_files.score("sentiment_transfer", folder, file)


def test_salience_by_hand() -> None:
    """The word "awful" occurs twice in unkind texts and never in kind ones: (2 + 1) / (0 + 1)."""
    found = Salience(UNKIND + KIND, ["0"] * 4 + ["1"] * 4, smoothing=1.0, threshold=3.0)
    assert found(("awful",), "0", "1") == 3.0 and found(("awful",), "1", "0") == pytest.approx(1 / 3)
    assert found(("soup", "was"), "0", "1") == 1.0
    assert found.places(["an", "awful", "soup", ",", "never", "again"], "0", "1") == [1, 4]
    assert found.places(["an", "awful", "soup"], "1", "0") == [0]  # no word is kind, so the first of equal words
    assert found.places(["soup", "lovely"], "0", "1") == [0] and found.places([], "0", "1") == []


def test_salience_without_counts_of_rare_ngrams_is_exact() -> None:
    """Rare n-grams are not counted. The same n-grams exceed the threshold as if all were counted."""
    rng = random.Random(3)
    texts = [" ".join(rng.choices("abcde", [4, 2, 1, 1, 1], k=6)) for _ in range(80)]
    labels = [str(int("a b" in text or "c" in text)) for text in texts]
    found = Salience(texts, labels, smoothing=1.0, threshold=3.0)  # n-grams of two words that occur twice exceed it

    def count(run: tuple[str, ...], label: str) -> int:
        lines = [text.split() for text, own in zip(texts, labels, strict=True) if own == label]
        return sum(other == run for line in lines for _, other in runs(line, len(run)))

    every = {run for text in texts for size in range(1, 5) for _, run in runs(text.split(), size)}
    over = [{run for run in every if found(run, a, b) >= 3.0} for a, b in ("01", "10")]
    expected = [{run for run in every if (count(run, a) + 1) / (count(run, b) + 1) >= 3.0} for a, b in ("01", "10")]
    assert over == expected and over[0] and any(len(run) > 2 for run in over[1])


def test_copy_and_delete_baselines_are_default_rows(data: Path) -> None:
    task = tasks.load("sentiment_transfer")
    train, test = task.examples(data, "train"), task.examples(data, "test")
    assert baselines.predict("copy", task, train, test) == [e.inputs[0] for e in test]
    negative = [Example(id="0", inputs=("never again , awful soup .", "1"))]
    salience = attributes.salience_of(task, train, threshold=2.5)
    assert salience.places(negative[0].inputs[0].split(), "0", "1") == [0, 3]
    # No n-gram reaches 15, so the first word is deleted.
    assert baselines.predict("delete", task, train, negative) == ["again , awful soup ."]
    for name in ("majority", "bag-of-words"):
        with pytest.raises(NotApplicable, match="because its training set has no target texts"):
            baselines.predict(name, task, train, test)
    with pytest.raises(NotApplicable, match="because delete applies only to texts with labels"):
        baselines.predict("delete", tasks.load("multi30k"), [], [])
    rows = plan.rows_of(["bert"], ["tiny"], baselines.by_default([task]))
    assert [row.name for row in rows][2:] == ["bag-of-words", "copy", "delete", "majority"]
    assert baselines.by_default([tasks.load("multi30k"), tasks.load("sst2")]) == ("bag-of-words", "majority")
