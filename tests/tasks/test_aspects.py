"""Aspect-based sentiment: the readers, five question constructions, and metrics checked against the authors' rules."""

import json
import random
from pathlib import Path

import numpy as np
import pytest
from sklearn.metrics import accuracy_score, precision_recall_fscore_support, roc_auc_score

from ptmbench import tasks
from ptmbench.bench import baselines
from ptmbench.bench.scoring.score import scores as with_intervals
from ptmbench.bench.scoring.score_files import score
from ptmbench.tasks.aspects import YES_NO
from ptmbench.tasks.forms import Part, Scored
from ptmbench.tasks.metrics import semeval14, sentihood
from ptmbench.tasks.task import DataError, Example, MissingData, UnknownTask

DATA = Path(__file__).resolve().parents[2].parent / "shared" / "data"
FAMILIES = ("sentihood", "semeval14_restaurants")
WAYS = ("qa-m", "nli-m", "qa-b", "nli-b")
NONE, GOOD, BAD = sentihood.LABELS


def real(name: str, split: str) -> list[Example]:
    try:
        return tasks.load(name).examples(DATA, split)
    except MissingData as reason:
        pytest.skip(f"no real data: {reason}")


@pytest.mark.parametrize(
    ("split", "texts", "places", "opinions"),
    [("train", 2977, 3752, 2460), ("dev", 747, 937, 610), ("test", 1491, 1879, 1216)],
)
def test_sentihood_has_the_official_counts(split: str, texts: int, places: int, opinions: int) -> None:
    examples = real("sentihood", split)
    assert len({example.group for example in examples}) == texts
    assert len({example.gold.whole for example in examples}) == places and len(examples) == 4 * places
    assert len({example.id for example in examples}) == len(examples)
    assert sum(example.gold != "None" for example in examples) == opinions
    assert all("LOCATION" not in example.inputs[0] for example in examples)


@pytest.mark.parametrize(("split", "sentences", "opinions"), [("train", 3041, 3711), ("test", 800, 1025)])
def test_semeval_has_the_official_counts(split: str, sentences: int, opinions: int) -> None:
    examples = real("semeval14_restaurants", split)  # two of the 3713 categories of the training file are duplicates
    assert len({example.group for example in examples}) == sentences and len(examples) == 5 * sentences
    assert sum(example.gold != "none" for example in examples) == opinions


CHEAP = {"sentiment": "Positive", "aspect": "price", "target_entity": "LOCATION1"}
SENTIHOOD = [
    {
        "id": 7,
        "text": "  LOCATION1 is cheaper than LOCATION2\u2028",
        "opinions": [
            CHEAP,
            {"sentiment": "Negative", "aspect": "price", "target_entity": "LOCATION2"},
            {"sentiment": "Positive", "aspect": "dining", "target_entity": "LOCATION2"},
        ],
    },
    {"id": 8, "text": "LOCATION1", "opinions": []},
]
XML = (
    '<?xml version="1.0" encoding="UTF-8"?>\n<sentences>\n<sentence id="1#a"><text>Caf&#233; &amp; bar </text>\n'
    '<aspectTerms><aspectTerm term="bar" polarity="positive" from="7" to="10"/></aspectTerms>\n'
    '<aspectCategories><aspectCategory category="food" polarity="conflict"/>\n'
    '<aspectCategory category="anecdotes/miscellaneous" polarity="neutral" /></aspectCategories></sentence>\n'
    '<sentence id="2#b"><text>Where?</text></sentence>\n</sentences>\n'
)


def sentihood_file(folder: Path, entries: object = SENTIHOOD, name: str = "sentihood-test.json") -> Path:
    path = folder / name
    path.write_text(json.dumps(entries), encoding="utf-8")
    return path


def semeval_file(folder: Path, text: str = XML, name: str = "Restaurants_Test_Gold.xml") -> Path:
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return path


def test_sentihood_has_four_aspects_per_place(tmp_path: Path) -> None:
    sentihood_file(tmp_path)
    examples = list(tasks.load("sentihood").read(tmp_path, "test"))
    assert len(examples) == 12
    first = examples[0]
    text = "location - 1 is cheaper than location - 2"
    assert first == Example(id="7-LOCATION1-general", inputs=(text, "location - 1 - general"), gold="None", group="7")
    assert [example.gold for example in examples] == [NONE, GOOD, NONE, NONE, NONE, BAD] + [NONE] * 6
    assert examples[6].inputs[1] == "location - 2 - transit location"
    assert (examples[6].gold.whole, examples[6].gold.kind) == ("7-LOCATION2", "transit-location")


def test_semeval_has_five_categories_per_sentence(tmp_path: Path) -> None:
    semeval_file(tmp_path)
    examples = list(tasks.load("semeval14_restaurants").read(tmp_path, "test"))
    assert [example.gold for example in examples] == ["none", "neutral", "conflict"] + ["none"] * 7
    assert examples[1] == Example(
        id="1#a:anecdotes/miscellaneous", inputs=("Café & bar", "anecdotes"), gold="neutral", group="1#a"
    )


@pytest.mark.parametrize(
    ("entries", "message"),
    [
        ({}, "must be a list of texts"),
        ([7], "text 1: not in SentiHood's format"),
        ([{"id": 1, "text": "LOCATION1"}], "text 1: not in SentiHood's format .KeyError.'opinions'"),
        ([SENTIHOOD[1], SENTIHOOD[1] | {"text": None}], "text 2: not in SentiHood's format"),
        (
            [SENTIHOOD[1] | {"opinions": [{"sentiment": "Good", "aspect": "x", "target_entity": "LOCATION1"}]}],
            "text 1: the sentiment 'Good' is not one of",
        ),
        (
            [SENTIHOOD[1] | {"opinions": [{"sentiment": "Positive", "aspect": "x", "target_entity": "LOCATION2"}]}],
            "text 1: the text does not name 'LOCATION2'",
        ),
        (
            [SENTIHOOD[0] | {"opinions": [CHEAP, CHEAP | {"sentiment": "Negative"}]}],
            "there are two sentiments about 'price' of LOCATION1",
        ),
    ],
)
def test_sentihood_errors_describe_malformed_files(tmp_path: Path, entries: object, message: str) -> None:
    sentihood_file(tmp_path, entries)
    with pytest.raises(DataError, match=message) as error:
        list(tasks.load("sentihood").read(tmp_path, "test"))
    assert "sentihood-test.json" in str(error.value)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("</sentences>", "", "line 9: this is not XML .no element found"),
        ('category="food"', 'category="wine"', "line 5: the label 'wine' is not one of 'price'"),
        ('polarity="neutral"', 'polarity="none"', "line 6: the label 'none' is not one of"),
        ('id="2#b"', 'id="1#a"', "line 7: the sentence's id '1#a' is missing or there twice"),
        (' id="2#b"', "", "line 7: the sentence's id '' is missing"),
        (
            'category="anecdotes/miscellaneous"',
            'category="food"',
            "line 6: the category food has two polarities in one sentence",
        ),
        ("<sentences>", '<!DOCTYPE x [<!ENTITY y "z">]><sentences>', "line 2: a document type is declared"),
    ],
)
def test_semeval_errors_describe_malformed_files(tmp_path: Path, old: str, new: str, message: str) -> None:
    semeval_file(tmp_path, XML.replace(old, new))
    with pytest.raises(DataError, match=f"Restaurants_Test_Gold.xml, {message}"):
        list(tasks.load("semeval14_restaurants").read(tmp_path, "test"))


@pytest.mark.parametrize("name", FAMILIES)
def test_question_constructions_share_examples_and_metrics(name: str, tmp_path: Path) -> None:
    sentihood_file(tmp_path), semeval_file(tmp_path)
    single = tasks.load(name)
    examples = list(single.read(tmp_path, "test"))
    assert tasks.load(f"{name}-single") is single
    for way in WAYS:
        task = tasks.load(f"{name}-{way}")
        assert task.name == f"{name}-{way}" and task is tasks.load(task.name)
        assert (task.read, task.metrics, task.labels) == (single.read, single.metrics, single.labels)
    for task in (single, *(tasks.load(f"{name}-{way}") for way in WAYS)):
        for example in examples:
            questions = task.questions(example)
            assert all(set(question.answers) <= set(task.answers) for question in questions)
            certain = [[float(answer == q.gold) for answer in q.answers] for q in questions]
            assert task.chosen(certain) == example.gold  # `chosen` is the inverse of `questions`
            unlabelled = Example(id="0", inputs=example.inputs)
            assert all(question.gold is None for question in task.questions(unlabelled))
    with pytest.raises(UnknownTask, match="no construction 'qa'. Choices: single, qa-m"):
        tasks.load(f"{name}-qa")


def test_auxiliary_sentences_are_those_of_the_paper(tmp_path: Path) -> None:
    sentihood_file(tmp_path), semeval_file(tmp_path)
    place = list(tasks.load("sentihood").read(tmp_path, "test"))[6]
    food = list(tasks.load("semeval14_restaurants").read(tmp_path, "test"))[2]

    def question_texts(name: str, example: Example) -> list[tuple]:
        return [question.inputs[1:] for question in tasks.load(name).questions(example)]

    assert question_texts("sentihood", place) == question_texts("semeval14_restaurants", food) == [()]
    assert question_texts("sentihood-qa-m", place) == [("what do you think of the transit location of location - 2 ?",)]
    assert question_texts("sentihood-nli-m", place) == [("location - 2 - transit location",)]
    statement = "the polarity of the aspect transit location of location - 2 is Positive ."
    assert question_texts("sentihood-qa-b", place)[1] == (statement,)
    assert question_texts("sentihood-nli-b", place)[0] == ("None - location - 2 - transit location",)
    assert question_texts("semeval14_restaurants-qa-m", food) == [("what do you think of the food of it ?",)]
    assert question_texts("semeval14_restaurants-nli-m", food) == [("food",)]
    assert question_texts("semeval14_restaurants-qa-b", food)[3] == ("the polarity of the aspect food is conflict .",)
    assert question_texts("semeval14_restaurants-nli-b", food)[4] == ("none - food",)


@pytest.mark.parametrize(
    ("yes", "label", "shares"),
    [
        ((0.2, 0.6, 0.2), GOOD, (0.2, 0.6, 0.2)),
        ((0.9, 0.95, 0.1), GOOD, (0.9 / 1.95, 0.95 / 1.95, 0.1 / 1.95)),  # two are above 1/2: the higher one
        ((0.1, 0.05, 0.2), BAD, (0.1 / 0.35, 0.05 / 0.35, 0.2 / 0.35)),  # "no" is more likely for all
        ((0.5, 0.5, 0.1), NONE, (0.5 / 1.1, 0.5 / 1.1, 0.1 / 1.1)),  # the first of equal ones
        ((0.0, 0.0, 0.0), NONE, (1 / 3, 1 / 3, 1 / 3)),
    ],
)
def test_statement_with_the_highest_yes_probability_decides(yes: tuple, label: str, shares: tuple) -> None:
    found = tasks.load("sentihood-qa-b").chosen([(1 - p, p) for p in yes])
    assert found == label and found.scores == pytest.approx(shares)
    assert YES_NO.index("yes") == 1


def places(*texts: str) -> list[Part]:
    """Makes the gold of places from one letter per aspect: n, p, m for None, Positive, Negative (minus)."""
    named = {"n": NONE, "p": GOOD, "m": BAD}
    return [Part(named[c], whole=str(i), kind=str(k)) for i, text in enumerate(texts) for k, c in enumerate(text)]


@pytest.mark.parametrize(
    ("gold", "guess", "strict", "f1"),
    [  # strict accuracy, and the harmonic mean of averaged precision and recall, as in Sun et al.'s script
        (("pnnn", "nmnn"), ("pnnn", "nmnn"), 100, 100),
        (("pnnn",), ("mnnn",), 0, 100),  # the aspect is found, its sentiment is wrong: strict accuracy needs both
        (("nnnn", "pnnn"), ("nnnn", "nnnn"), 50, 0),
        (("nnnn", "pnnn"), ("pnnn", "pnnn"), 50, 100),  # the F1 ignores false positives at places without aspects
        (("ppnn", "pnnn"), ("pnnn", "ppnn"), 0, 75),  # P (1 + 1/2) / 2, R (1/2 + 1) / 2; the mean of F1s is 2/3
        (("pnnn",), ("npnn",), 0, 0),
        (("nnnn",), ("nnnn",), 100, 0),  # no place has an aspect, so there is nothing to average
    ],
)
def test_aspects_by_hand(gold: tuple, guess: tuple, strict: float, f1: float) -> None:
    found = sentihood.aspects(places(*gold), [str(label) for label in places(*guess)])
    assert found == pytest.approx({"aspect_accuracy": strict, "aspect_f1": f1})


@pytest.mark.parametrize(
    ("gold", "scores", "accuracy"),
    [
        (GOOD, (0.8, 0.15, 0.05), 100),  # None is most likely overall, and Positive among the sentiments
        (BAD, (0.8, 0.15, 0.05), 0),
        (GOOD, (0.0, 0.5, 0.5), 100),  # 1/2 is not above 1/2
        (BAD, (0.0, 0.5, 0.5), 0),
        (NONE, (0.0, 0.5, 0.5), 0),  # not counted: 0 of 0
        (GOOD, (1.0, 0.0, 0.0), 100),
    ],
)
def test_sentiment_accuracy_ignores_the_score_of_none(gold: str, scores: tuple, accuracy: float) -> None:
    guess = [Scored.best(sentihood.LABELS, scores)]
    assert sentihood.sentiment([Part(gold, whole="a", kind="b")], guess) == {"sentiment_accuracy": accuracy}


def test_sentihood_metrics_equal_scikit_learn() -> None:
    rng = np.random.default_rng(0)
    for size in (30, 200):
        gold = places(*("".join(rng.choice(list("nnnpm"), 4)) for _ in range(size)))
        shares = rng.dirichlet([2, 1, 1], len(gold)).round(1) + 0.001  # ties
        guess = [Scored.best(sentihood.LABELS, row) for row in shares]
        by_kind = [[i for i, label in enumerate(gold) if label.kind == str(kind)] for kind in range(4)]
        none = np.array([label == NONE for label in gold])
        expected = np.mean([roc_auc_score(none[rows], shares[rows, 0]) for rows in by_kind])
        assert sentihood.aspect_auc(gold, guess)["aspect_auc"] == pytest.approx(100 * expected)
        rows_with_opinion = [[i for i in rows if not none[i]] for rows in by_kind]
        negative, share = np.array([label == BAD for label in gold]), shares[:, 2] / (shares[:, 1] + shares[:, 2])
        expected = np.mean([roc_auc_score(negative[rows], share[rows]) for rows in rows_with_opinion])
        assert sentihood.sentiment_auc(gold, guess)["sentiment_auc"] == pytest.approx(100 * expected)
        expected = accuracy_score(negative[~none], share[~none] > 0.5)
        assert sentihood.sentiment(gold, guess)["sentiment_accuracy"] == pytest.approx(100 * expected)


def test_auc_of_constant_scores_and_of_a_single_class() -> None:
    assert sentihood.area(np.array([True, False, False]), np.array([0.3, 0.3, 0.3])) == 0.5
    assert sentihood.area(np.array([True, True]), np.array([0.3, 0.4])) is None
    gold = [Part(GOOD, kind="a"), Part(NONE, kind="a"), Part(NONE, kind="b")]  # "b" has one class and is left out
    assert sentihood.aspect_auc(gold, [GOOD, NONE, GOOD]) == {"aspect_auc": 100.0}
    assert sentihood.aspect_auc(gold[2:], [NONE]) == {"aspect_auc": 50.0}
    assert sentihood.sentiment_auc(gold[2:], [NONE]) == sentihood.sentiment_auc([], []) == {"sentiment_auc": 50.0}


@pytest.mark.parametrize(
    ("gold", "guess", "expected"),
    [  # precision, recall; accuracy for 4, 3, 2 classes
        ("positive none", "negative none", (100, 100, 0, 0, 0)),  # the category is found
        ("positive none", "none positive", (0, 0, 100, 100, 100)),  # all equally likely: the first, positive
        ("negative", "none", (0, 0, 0, 0, 0)),
        ("conflict neutral", "conflict conflict", (100, 100, 50, 0, 0)),  # three classes: positive replaces conflict
        ("conflict", "conflict", (100, 100, 100, 0, 0)),
        ("positive negative", "neutral neutral", (100, 100, 0, 0, 50)),
        ("none", "none", (0, 0, 0, 0, 0)),
        ("", "", (0, 0, 0, 0, 0)),
    ],
)
def test_categories_by_hand(gold: str, guess: str, expected: tuple) -> None:
    found = semeval14.categories(gold.split(), guess.split())
    names = ("precision", "recall", "accuracy_4", "accuracy_3", "accuracy_2")
    assert tuple(found[name] for name in names) == pytest.approx(expected)


def test_most_likely_remaining_class_replaces_an_excluded_class() -> None:
    guess = Scored.best(semeval14.LABELS, (0.1, 0.15, 0.2, 0.25, 0.3))
    assert guess == "none"
    found = [semeval14.categories([gold], [guess]) for gold in ("conflict", "negative")]
    assert [list(values.values())[3:] for values in found] == [[100, 0, 0], [0, 100, 100]]


def test_categories_equal_scikit_learn() -> None:
    rng = random.Random(0)
    gold, guess = ([rng.choice(semeval14.LABELS) for _ in range(300)] for _ in range(2))
    precision, recall, f1, _ = precision_recall_fscore_support(
        [g != "none" for g in gold], [g != "none" for g in guess], average="binary"
    )
    found = semeval14.categories(gold, guess)
    expected = {"precision": 100 * precision, "recall": 100 * recall, "f1": 100 * f1}
    assert {name: found[name] for name in expected} == pytest.approx(expected)


def test_files_in_the_official_formats_are_scored(tmp_path: Path) -> None:
    guessed = [SENTIHOOD[0] | {"opinions": SENTIHOOD[0]["opinions"][:1]}, SENTIHOOD[1]]
    gold, guess = sentihood_file(tmp_path), sentihood_file(tmp_path, guessed, "guess.json")
    found = score("sentihood-nli-b", gold, guess)
    assert (found["examples"], found["aspect_accuracy"], found["aspect_f1"]) == (12, pytest.approx(200 / 3), 50)
    with pytest.raises(DataError, match=r"guess\.json has no prediction for the example 8-LOCATION1-general"):
        score("sentihood", gold, sentihood_file(tmp_path, guessed[:1], "guess.json"))
    gold = semeval_file(tmp_path)
    guess = semeval_file(tmp_path, XML.replace('polarity="conflict"', 'polarity="positive"'), "guess.xml")
    found = score("semeval14_restaurants", gold, guess)
    assert (found["f1"], found["accuracy_4"], found["accuracy_3"]) == (100, 50, 100)
    less = XML.replace('<sentence id="2#b"><text>Where?</text></sentence>', "")
    with pytest.raises(DataError, match=r"guess\.xml has a prediction for 2#b:price, which .*xml does not hold"):
        score("semeval14_restaurants", semeval_file(tmp_path, less, "gold.xml"), guess)


def test_prediction_rows_may_have_probabilities(tmp_path: Path) -> None:
    gold = sentihood_file(tmp_path)
    table, shares = ["index\tprediction\tNone\tPositive\tNegative"], [0.9] * 12
    shares[1] = shares[5] = 0.6  # None is predicted everywhere, with the lowest probability where there are opinions
    rows = [f"{i}\tNone\t{p}\t{(1 - p) / 2}\t{(1 - p) / 2}" for i, p in enumerate(shares)]
    guess = tmp_path / "guess.tsv"
    guess.write_text("\n".join(table + rows))
    assert score("sentihood", gold, guess)["aspect_auc"] == 100
    guess.write_text("\n".join(["index\tprediction", *(f"{i}\tNone" for i in range(12))]))
    assert score("sentihood", gold, guess)["aspect_auc"] == 50
    guess.write_text("\n".join(table + ["0\tNone\t1.5\t0\t0"]))
    with pytest.raises(DataError, match=r"guess\.tsv, line 2: '1.5' is not a number from 0 to 1"):
        score("sentihood", gold, guess)


@pytest.mark.parametrize("name", [f"{family}{way}" for family in FAMILIES for way in ("", "-qa-m", "-nli-b")])
def test_baseline_answers_each_question_and_metrics_have_intervals(name: str, tmp_path: Path) -> None:
    sentihood_file(tmp_path, SENTIHOOD * 3), semeval_file(tmp_path)
    task = tasks.load(name)
    examples = list(task.read(tmp_path, "test"))
    guesses = baselines.predict("bag-of-words", task, examples, examples)
    assert all(isinstance(guess, Scored) and sum(guess.scores) == pytest.approx(1) for guess in guesses)
    assert set(guesses) <= set(task.labels)
    values = with_intervals(task, examples, guesses)
    assert set(values) == set(task.score([e.gold for e in examples], guesses))
    assert all(value["low"] <= value["value"] + 1e-9 for value in values.values() if value["low"] == value["low"])
    assert values["headline"] == values[task.headline]
