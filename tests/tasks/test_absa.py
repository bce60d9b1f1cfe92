"""BARTABSA's files, written by hand in the authors' three layouts, and F1 over exactly matching tuples."""

import json

import pytest

from ptmbench import tasks
from ptmbench.bench.scoring import score_files
from ptmbench.tasks import absa
from ptmbench.tasks.forms import Form
from ptmbench.tasks.metrics.tuples import tuple_f1
from ptmbench.tasks.task import DataError, MissingData, UnknownTask


def span(first: int, past: int, words: str, **more) -> dict:
    return {"from": first, "to": past, "term": words.split()[first:past], **more}


def sentence(words: str, aspects: list, opinions: list) -> dict:
    """Makes a sentence as in D20, where the n-th aspect and the n-th opinion are a pair."""
    return {
        "raw_words": words, "words": words.split(),
        "aspects": [
            span(*one[:2], words, index=i, **({"polarity": one[2]} if len(one) > 2 else {}))
            for i, one in enumerate(aspects)
        ],
        "opinions": [span(*one, words, index=i) for i, one in enumerate(opinions)],
    }  # fmt: skip


LAPTOP = "Boot time is super fast but the Mac OS crashes"
PAIRED = [
    sentence(LAPTOP, [(7, 9, "NEG"), (0, 2, "POS"), (0, 2, "POS")], [(9, 10), (3, 5), (3, 5)]),
    sentence("Set up", [(0, 2, "NEU")], [(1, 2)]),
]
WANG = [
    {
        "raw_words": LAPTOP, "words": LAPTOP.split(), "task": "AE-OE",
        "aspects": [span(7, 9, LAPTOP, polarity="NEG"), span(0, 2, LAPTOP, polarity="POS"), span(5, 6, LAPTOP)],
        "opinions": [span(9, 10, LAPTOP), span(4, 5, LAPTOP)],
    },
    {"raw_words": "ok", "words": ["ok"], "task": "AE-OE", "aspects": [{"term": []}], "opinions": [{"term": []}]},
]  # fmt: skip
FAN = [sentence(LAPTOP, [(0, 2)], [(3, 5)]), sentence(LAPTOP, [(0, 2)], [(9, 10)])]
FILES = {"pengb": PAIRED, "penga": PAIRED[:1], "wang": WANG, "fan": FAN}


@pytest.fixture
def data(tmp_path):
    for name, entries in FILES.items():
        folder = tmp_path / "absa" / name / "14lap"
        folder.mkdir(parents=True)
        for split in ("train", "test") if name == "fan" else ("train", "dev", "test"):
            (folder / f"{split}_convert.json").write_text(json.dumps(entries, indent=1))
    return tmp_path


GOLD = {
    "absa": [[(0, 1, 3, 4, "POS"), (7, 8, 9, 9, "NEG")], [(0, 1, 1, 1, "NEU")]],
    "absa-triplet-penga-14lap": [[(0, 1, 3, 4, "POS"), (7, 8, 9, 9, "NEG")]],
    "absa-pair-14lap": [[(0, 1, 3, 4), (7, 8, 9, 9)], [(0, 1, 1, 1)]],
    "absa-aesc-14lap": [[(0, 1, "POS"), (7, 8, "NEG")], [(0, 1, "NEU")]],
    "absa-ae-14lap": [[(0, 1), (7, 8)], []],  # the aspect without a polarity is left out
    "absa-oe-14lap": [[(4, 4), (9, 9)], []],
    "absa-alsc-14lap": [[("NEG",)], [("POS",)]],
}


@pytest.mark.parametrize("name", GOLD)
def test_each_subtask_reads_its_gold_tuples(data, name):
    task = tasks.load(name)
    assert task.name == name and task.form is Form.POINTING
    examples = task.examples(data, "test")
    assert [list(example.gold) for example in examples] == GOLD[name]
    assert examples[0].inputs == tuple(LAPTOP.split())
    pattern = {"span": 2, "class": 1}
    size = sum(pattern[part] for part in task.extra["pattern"])
    assert all(len(one) == size for example in examples for one in example.gold)
    gold = [example.gold for example in examples]
    assert task.score(gold, gold)["headline"] == 100.0


def test_given_aspects_are_not_part_of_the_tuples(data):
    examples = tasks.load("absa-alsc-14lap").examples(data, "test")
    assert [(e.id, e.group, e.gold.given) for e in examples] == [("0-7-8", "0", (7, 8)), ("0-0-1", "0", (0, 1))]


def test_opinions_of_one_aspect_are_merged_only_in_training(data):
    task = tasks.load("absa-aoe-14lap")
    (train,) = task.examples(data, "train")
    assert list(train.gold) == [(3, 4), (9, 9)] and train.gold.given == (0, 1)
    assert [list(e.gold) for e in task.examples(data, "test")] == [[(3, 4)], [(9, 9)]]
    with pytest.raises(MissingData, match="no dev split"):
        task.examples(data, "dev")


def test_only_valid_combinations_of_subtask_and_domain_are_tasks():
    names = {tasks.load(f"absa-{subtask}-{domain}").name for subtask in absa.PATTERNS for domain in absa.DOMAINS
             if (subtask, domain) not in {(s, "16res") for s in ("ae", "oe", "alsc")}}  # fmt: skip
    assert len(names) == 7 * 4 - 3 and "absa" in names and tasks.load("absa-triplet-14lap").name == "absa"
    for name in ("triplet", "triplet-14cars", "ae-16res", "ae-pengb-14lap", "pair-penga-x-14lap", "all-14lap", ""):
        with pytest.raises(UnknownTask, match="absa-ae-14lap"):
            tasks.load(f"absa-{name}")


@pytest.mark.parametrize(
    "wrong, what",
    [
        ({"aspects": 3}, "not in BARTABSA's format"),
        ({"words": ["one"]}, "sentence of 1"),
        ({"opinions": []}, "no pairs"),
        ({"aspects": [span(0, 2, LAPTOP, polarity="GOOD")] * 3}, "'GOOD' is not one of POS, NEU, NEG"),
    ],
)
def test_errors_name_the_malformed_sentence(data, wrong, what):
    path = data / "absa/pengb/14lap/test_convert.json"
    path.write_text(json.dumps([PAIRED[1], PAIRED[0] | wrong]))
    with pytest.raises(DataError, match="sentence 1") as error:
        tasks.load("absa").examples(data, "test")
    assert what in str(error.value) and str(path) in str(error.value)


def test_tuples_by_hand():
    """Two of 3 gold and 4 predicted tuples agree. A repeated prediction counts once. A tuple may be a list, as in
    JSON."""
    gold = [[(0, 1, "POS"), (2, 2, "NEG")], [(5, 5, "POS")], []]
    guesses = [[(0, 1, "POS"), (2, 2, "POS"), (0, 1, "POS")], [[5, 5, "POS"], (5, 6, "POS")], []]
    found = tuple_f1(gold, guesses)
    assert (found["precision"], found["recall"]) == (50.0, pytest.approx(200 / 3))
    assert found["f1"] == pytest.approx(2 * 50 * (200 / 3) / (50 + 200 / 3)) and found["exact_match"] == pytest.approx(
        100 / 3
    )
    assert tuple_f1([[]], [[]])["f1"] == 0.0 and tuple_f1([[(1, 1)]], [[]])["f1"] == 0.0


def test_predictions_in_the_official_format_are_scored(data, tmp_path):
    gold, guess = data / "absa/pengb/14lap/test_convert.json", tmp_path / "guess.json"
    guess.write_text(json.dumps([sentence(LAPTOP, [(0, 2, "POS"), (7, 9, "POS")], [(3, 5), (9, 10)]), PAIRED[1]]))
    found = score_files.score("absa", gold, guess)
    assert found["examples"] == 2 and found["f1"] == pytest.approx(100 * 2 / 3) and found["exact_match"] == 50.0
    guess.write_text(json.dumps(PAIRED[:1]))
    with pytest.raises(DataError, match="no prediction for the example 1"):
        score_files.score("absa", gold, guess)
