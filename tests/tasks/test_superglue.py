"""SuperGLUE: the official counts of the real files if present, its metrics, and small malformed files."""

import json
import math
from pathlib import Path

import numpy as np
import pytest
from sklearn.metrics import f1_score

from ptmbench import tasks
from ptmbench.tasks.files import mark_word
from ptmbench.tasks.forms import Answer, Part
from ptmbench.tasks.metrics.macro_f1 import macro_f1
from ptmbench.tasks.metrics.multirc import multirc
from ptmbench.tasks.metrics.parity import gender_parity
from ptmbench.tasks.task import DataError, Example, MissingData

DATA = Path(__file__).resolve().parents[2].parent / "shared" / "data"

COUNTS = {
    "boolq": (None, 3270, 3245),
    "cb": (250, 56, 250),
    "copa": (400, 100, 500),
    "multirc": (27243, 4848, 9693),
    "rte_superglue": (2490, 277, 3000),
    "wic": (5428, 638, 1400),
    "wsc": (554, 104, 146),
    "axb": (2490, None, 1104),
    "axg": (2490, None, 356),
}
LABELS = {
    "boolq": ("true", 2033),
    "cb": ("neutral", 5),
    "multirc": ("1", 2075),
    "rte_superglue": ("entailment", 146),
    "wic": ("true", 319),
    "wsc": ("true", 38),
    "axb": ("entailment", 460),
    "axg": ("entailment", 178),
}
"""A label and its count in the reported split."""


def _split(name: str, split: str) -> list[Example]:
    task = tasks.load(name)
    try:
        task.paths(DATA, split)
    except MissingData as reason:
        pytest.skip(f"no real data: {reason}")
    return task.examples(DATA, split)


@pytest.mark.parametrize("name", COUNTS)
def test_real_files_have_the_official_counts(name: str) -> None:
    for split, count in zip(("train", "dev", "test"), COUNTS[name], strict=True):
        if count is None:
            with pytest.raises(MissingData):
                tasks.load(name).examples(DATA, split)
            continue
        examples = _split(name, split)
        assert len(examples) == count
        assert len({example.id for example in examples}) == count
        assert all(text.strip() for example in examples for text in example.inputs)
        hidden = split == "test" and name not in ("axb", "axg")
        assert all((example.gold is None) == hidden for example in examples)
        if split == "test":
            assert count == tasks.load(name).extra["submission"]["rows"]


@pytest.mark.parametrize("name", LABELS)
def test_reported_splits_have_the_official_labels(name: str) -> None:
    label, count = LABELS[name]
    assert sum(example.gold == label for example in _split(name, tasks.load(name).report)) == count


def test_multirc_groups_answers_by_question() -> None:
    for split, paragraphs, questions in (("train", 456, 5131), ("dev", 83, 953), ("test", 166, 1820)):
        examples = _split("multirc", split)
        assert len({example.group for example in examples}) == paragraphs
        assert len({example.id.rpartition("-")[0] for example in examples}) == questions
    dev = _split("multirc", "dev")
    assert len({example.gold.whole for example in dev}) == 953
    assert dev[1].id == "0-0-1"
    assert dev[1].inputs[1].endswith("to pick it up? Yes")
    everything = tasks.load("multirc").score([e.gold for e in dev], ["1"] * len(dev))
    # 2075 of 4848 answers are right, so precision is 2075 / 4848 and recall 1.
    assert everything["f1a"] == pytest.approx(100 * 2 * 2075 / (4848 + 2075))


def test_rte_labels_equal_those_of_glue() -> None:
    for split in ("train", "dev", "test"):
        ours, glue_rows = _split("rte_superglue", split), _split("rte", split)
        same = sum(a.gold == b.gold for a, b in zip(ours, glue_rows, strict=True))
        assert same == len(ours)


def test_diagnostics_have_the_rows_of_glue_with_labels() -> None:
    ours, glue_rows = _split("axb", "test"), _split("ax", "test")
    assert [example.id for example in ours] == [example.id for example in glue_rows]
    pairs = _split("axg", "test")
    assert len({example.group for example in pairs}) == 178
    constant = tasks.load("axg").score([example.gold for example in pairs], ["entailment"] * 356)
    assert (constant["accuracy"], constant["gender_parity"]) == (50.0, 100.0)


def test_words_are_marked_at_the_offsets_of_the_files() -> None:
    assert _split("wic", "dev")[0].inputs == (
        "An emerging professional * class * .",
        "Apologizing for losing your temper, even though you were badly provoked, showed real * class * .",
    )
    for split in ("train", "dev", "test"):
        for name, texts in (("wic", 2), ("wsc", 1)):
            assert all(text.split().count("*") >= 2 for e in _split(name, split) for text in e.inputs[:texts])
    assert "want to use * it * ," in _split("wsc", "dev")[42].inputs[0]  # its index points at "use"


def test_record_reads_real_rows() -> None:
    folder = DATA / "superglue" / "fewglue32" / "ReCoRD"
    if not folder.is_dir():
        pytest.skip(f"no real data: {folder}")
    examples = list(tasks.load("record").read(folder, "train"))
    assert len(examples) == 32
    for example in examples:
        assert "@placeholder" in example.inputs[0]
        assert all(example.inputs[1][a.start : a.start + len(a.text)] == a.text for a in example.gold)


@pytest.mark.parametrize(
    ("text", "start", "end", "expected"),
    [
        ("my place later", 3, 8, "my * place * later"),
        ("place.", 0, 5, "* place * ."),
        ("I'll hold", 5, 9, "I'll * hold *"),
        ("a  b\nc", 3, 4, "a * b * c"),
        ("naïve – çok", 8, 11, "naïve – * çok *"),
    ],
)
def test_mark_word_by_hand(text: str, start: int, end: int, expected: str) -> None:
    assert mark_word(text, start, end) == expected


def _questions(*questions: str) -> list[Part]:
    """Makes gold of MultiRC from strings. "110" is a question with three answers."""
    return [Part(label, whole=str(number)) for number, labels in enumerate(questions) for label in labels]


# F1a: scikit-learn's F1 of class 1 over all answers. F1m: the authors' script averages precision and recall over the
# questions, with 1 if nothing is predicted (precision) or nothing is right (recall), and takes F1 of the two means.
@pytest.mark.parametrize(
    ("gold", "predictions", "f1a", "exact_match", "f1m"),
    [
        (("10", "01"), "1001", 100, 100, 100),
        (("10", "01"), "0110", 0, 0, 0),
        (("110", "100"), "100100", 80, 50, 100 * 2 * 1 * 0.75 / 1.75),
        (("10", "10"), "0000", 0, 0, 0),  # nothing chosen: precision 1 twice, recall 0
        (("00", "10"), "0010", 100, 100, 100),  # a question without a right answer
        (("00", "10"), "1010", 200 / 3, 50, 100 * 2 * 0.5 * 1 / 1.5),
        (("00",), "00", 0, 100, 100),  # no right answers and none predicted: scikit-learn's F1 is 0
        (("11", "11", "10"), "101011", 100 * 2 * 3 / 9, 0, 100 * 2 * (2.5 / 3) * (2 / 3) / (1.5)),
    ],
)
def test_multirc_metrics_by_hand(gold, predictions: str, f1a: float, exact_match: float, f1m: float) -> None:
    found = multirc(_questions(*gold), list(predictions))
    assert found == pytest.approx({"f1a": f1a, "exact_match": exact_match, "f1m": f1m})


def test_f1m_of_multirc_is_not_the_mean_f1_of_questions() -> None:
    gold, predictions = _questions("110", "100"), list("100110")
    each = [f1_score([1, 1, 0], [1, 0, 0]), f1_score([1, 0, 0], [1, 1, 0])]
    assert multirc(gold, predictions)["f1m"] == pytest.approx(75)  # P = (1 + 1/2) / 2, R = (1/2 + 1) / 2
    assert 100 * np.mean(each) == pytest.approx(200 / 3)


def test_answers_of_a_question_need_not_be_adjacent() -> None:
    gold = [Part("1", whole="a"), Part("0", whole="b"), Part("0", whole="a")]
    assert multirc(gold, ["1", "1", "0"])["exact_match"] == 50


def test_a_part_equals_its_label_and_can_be_pickled() -> None:
    import pickle

    part = Part("1", whole="q")
    assert part == "1" and hash(part) == hash("1") and json.dumps([part]) == '["1"]'
    assert pickle.loads(pickle.dumps(part)).whole == "q"


@pytest.mark.parametrize(
    ("gold", "predictions", "expected"),
    [
        ("aabb", "aabb", 100),
        ("aabb", "aaaa", 100 * (2 / 3 + 0) / 2),  # a class never predicted counts with 0
        ("aaaa", "aaaa", 100),  # only one class occurs: the mean over that class
        ("aaaa", "bbbb", 0),
        ("aab", "abc", 100 * (2 / 3) / 3),  # a class that occurs only in the predictions also counts
        ("éé☃", "é☃☃", 100 * 2 / 3),
    ],
)
def test_macro_f1_equals_scikit_learn(gold: str, predictions: str, expected: float) -> None:
    assert macro_f1(list(gold), list(predictions))["macro_f1"] == pytest.approx(expected)
    assert f1_score(list(gold), list(predictions), average="macro", zero_division=0) * 100 == pytest.approx(expected)


def test_macro_f1_of_random_labels_equals_scikit_learn() -> None:
    rng = np.random.default_rng(0)
    for size in (1, 2, 7, 100):
        gold, guess = (rng.choice(list("xyz"), size).tolist() for _ in range(2))
        ours = macro_f1(gold, guess)["macro_f1"]
        assert ours == pytest.approx(100 * f1_score(gold, guess, average="macro", zero_division=0), abs=1e-9)
    assert macro_f1([], []) == {"macro_f1": 0.0}


@pytest.mark.parametrize(
    ("pairs", "predictions", "expected"),
    [("aabb", "xxyy", 100), ("aabb", "xyyy", 50), ("abab", "xyxy", 100), ("abab", "xxyy", 0), ("", "", 0)],
)
def test_gender_parity_by_hand(pairs: str, predictions: str, expected: float) -> None:
    gold = [Part("x", whole=pair) for pair in pairs]
    assert gender_parity(gold, list(predictions)) == {"gender_parity": expected}


def test_record_scores_the_best_answer_as_in_the_official_script() -> None:
    gold = [(Answer("Benazir Bhutto", 0), Answer("Bhutto", 9)), (Answer("the CNN", 0),)]
    scores = tasks.load("record").score(gold, ["Bhutto!", "CNN news"])
    assert scores["exact_match"] == 50
    assert scores["f1"] == pytest.approx(100 * (1 + 2 / 3) / 2)
    assert math.isclose(scores["headline"], (scores["exact_match"] + scores["f1"]) / 2)


GOOD = {
    "boolq": {"question": "is it", "passage": "It is.", "label": True, "idx": 0},
    "cb": {"premise": "A.", "hypothesis": "B", "label": "neutral", "idx": 0},
    "wic": {"word": "b", "sentence1": "A b.", "sentence2": "B c.", "start1": 2, "end1": 3, "start2": 0, "end2": 1}
    | {"idx": 0, "label": False},
    "wsc": {"text": "Jo ran, he did.", "idx": 0, "label": True}
    | {"target": {"span1_text": "Jo", "span1_index": 0, "span2_text": "he", "span2_index": 2}},
    "multirc": {"idx": 3, "passage": {"text": "A.", "questions": [{"idx": 7, "question": "B?", "answers": []}]}},
    "record": {"idx": 0, "passage": {"text": "Jo ran."}}
    | {"qas": [{"idx": 5, "query": "@placeholder ran.", "answers": [{"start": 0, "end": 1, "text": "Jo"}]}]},
}
WRONG = {"idx": 0, "text": "C", "label": 2}


@pytest.mark.parametrize(
    ("name", "change", "message"),
    [
        ("boolq", {"label": 1}, 'the key "label" is 1; true or false'),
        ("boolq", {"passage": None}, 'the key "passage" is None; a text'),
        ("cb", {"label": "maybe"}, "the label 'maybe' is not one of 'entailment', 'contradiction', 'neutral'"),
        ("cb", {"idx": "0"}, 'the key "idx" is \'0\'; a whole number'),
        ("wic", {"end1": 9}, "characters 2 to 9 are not part of sentence1"),
        ("wic", {"start2": 1}, "characters 1 to 1 are not part of sentence2"),
        ("wsc", {"text": "Jo ran, she did."}, "the text does not hold the pronoun 'he'"),
        ("wsc", {"target": 1}, 'the key "target" is 1; an object'),
        ("multirc", {"passage": {"text": "A.", "questions": [1]}}, '"questions" must be a list of objects'),
        (
            "multirc",
            {"passage": {"text": "A", "questions": [{"idx": 0, "question": "B", "answers": [WRONG]}]}},
            "the label 2 is not one of 0, 1",
        ),
        ("record", {"qas": [{"idx": 5, "query": "x", "answers": []}]}, "at least one object"),
        (
            "record",
            {"qas": [{"idx": 5, "query": "x", "answers": [{"start": 3, "text": "Jo"}]}]},
            "'Jo' does not stand at character 3",
        ),
    ],
)  # fmt: skip
def test_errors_name_the_line_of_malformed_rows(name: str, change: dict, message: str, tmp_path: Path) -> None:
    good = json.dumps(GOOD[name])
    (tmp_path / "train.jsonl").write_text(f"{good}\n{json.dumps(GOOD[name] | change)}\n")
    with pytest.raises(DataError, match=f"train.jsonl, line 2: .*{message}") as error:
        list(tasks.load(name).read(tmp_path, "train"))
    assert "official file" in str(error.value)


def test_ax_g_needs_its_pairs(tmp_path: Path) -> None:
    rows = [
        {"premise": p, "hypothesis": h, "label": "entailment", "idx": 0}
        for p, h in (("A", "B"), ("C", "B"), ("A", "D"))
    ]
    path = tmp_path / "AX-g" / "AX-g.jsonl"
    path.parent.mkdir()
    for count, message in ((3, "odd number of rows"), (2, "line 2: hypothesis or label differs")):
        path.write_text("".join(json.dumps(row) + "\n" for row in (rows if count == 3 else rows[1:])))
        with pytest.raises(DataError, match=message):
            list(tasks.load("axg").read(tmp_path, "test"))
