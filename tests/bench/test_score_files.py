"""Prediction files: the official scores, and errors with the first row that does not match."""

import gzip
import json
import subprocess
import sys
from pathlib import Path

import pytest

from ptmbench import tasks
from ptmbench.bench.errors import UsageError
from ptmbench.bench.scoring.score_files import score
from ptmbench.tasks.forms import Form, Marked
from ptmbench.tasks.metrics.accuracy import accuracy
from ptmbench.tasks.metrics.correlation import correlation
from ptmbench.tasks.task import DataError, Example, Source, Task
from tests.bench.files import written

ROOT = Path(__file__).resolve().parents[2]
SOURCE = Source(citation="-", licence="-", url="-", survey="")


def _read_rows(folder: Path, split: str) -> list[Example]:
    """As in CoLA, the test file has a header and the dev file has none."""
    rows = (folder / f"{split}.tsv").read_text().splitlines()[split == "test" :]
    cast = float if folder.joinpath("number").exists() else str
    return [Example(id=str(n), inputs=(row,), gold=cast(row.split("\t")[0]) or None) for n, row in enumerate(rows)]


def _made_up(form: Form, **more: object) -> Task:
    files = {"train": ("train.tsv",), "dev": ("dev.tsv",), "test": ("test.tsv",)}
    more = {"metrics": (accuracy,), "headline": "accuracy", "read": _read_rows, **more}
    return Task(name="made_up", title="Made up", form=form, source=SOURCE, folders=("x",), files=files, **more)


@pytest.fixture
def task(monkeypatch: pytest.MonkeyPatch):
    """A function that makes `tasks.load` return a made-up task."""

    def register(form: Form, **more: object) -> None:
        made = _made_up(form, **more)
        monkeypatch.setattr(tasks, "load", lambda name: made)

    return register


def test_classification_is_scored(tmp_path: Path, task) -> None:
    task(Form.CLASSIFICATION, labels=("yes", "no"))
    gold = written(tmp_path / "my-dev-file.txt", "yes\ta\nno\tb\nno\tc\n")
    guess = written(tmp_path / "guess.tsv", "\ufeffindex\tprediction\r\n0\tyes\r\n1\tno\r\n2\tyes\r\n\r\n")
    assert score("made_up", gold, guess) == pytest.approx(
        {"task": "made_up", "examples": 3, "accuracy": 200 / 3, "headline": 200 / 3}
    )
    gold = written(tmp_path / "test.tsv", "label\ttext\nyes\ta\nno\tb\nno\tc\n")  # the file name determines the layout
    assert score("made_up", gold, guess)["accuracy"] == pytest.approx(200 / 3)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("0\tyes\n1\tno\n", "line 1: the header lacks 'index', 'prediction'.* Expected: a header"),
        ("", r"guess.tsv is empty\. Expected: a header .*; or the lines that `predict` writes\.$"),
        ("index\tprediction\n0\tyes\n2\tno\n", "line 3: expected index 1, found '2'"),
        ("index\tprediction\n0\tmaybe\n1\tno\n", "line 2: the label 'maybe' is not one of 'yes', 'no'"),
        ("index\tprediction\n0\tyes\n", "has 2 rows but .* has 1: index 1 is the first"),
        ("index\tprediction\n0\tyes\n1\tno\n2\tno\n", "has 2 rows but .* has 3: index 2 is the first"),
        ("index\tprediction\n0\tyes\n1\n", "line 3: 1 tab-separated fields where 2 were expected"),
    ],
)
def test_classification_refuses_invalid_rows(tmp_path: Path, task, text: str, message: str) -> None:
    task(Form.CLASSIFICATION, labels=("yes", "no"))
    gold = written(tmp_path / "gold.tsv", "yes\ta\nno\tb\n")
    with pytest.raises(DataError, match=message):
        score("made_up", gold, written(tmp_path / "guess.tsv", text))


def test_a_gold_file_without_answers_is_reported_with_its_name(tmp_path: Path, task) -> None:
    task(Form.CLASSIFICATION, labels=("yes",))
    guess = written(tmp_path / "guess.tsv", "index\tprediction\n0\tyes\n")
    with pytest.raises(DataError, match=r"gold\.tsv has no answer for 0"):
        score("made_up", written(tmp_path / "gold.tsv", "\ttext\n"), guess)

    def refuse(folder: Path, split: str) -> list[Example]:
        raise DataError(f"{folder / 'dev.tsv'}, line 1: bad.")

    task(Form.CLASSIFICATION, labels=("yes",), read=refuse)
    with pytest.raises(DataError) as caught:
        score("made_up", tmp_path / "gold.tsv", guess)
    assert str(caught.value) == f"{tmp_path / 'gold.tsv'}, line 1: bad."


def test_regression_is_scored(tmp_path: Path, task) -> None:
    def read(folder: Path, split: str) -> list[Example]:
        return [Example(id=str(n), inputs=("x",), gold=float(n)) for n in range(3)]

    task(Form.REGRESSION, metrics=(correlation,), headline="pearson+spearman", read=read)
    gold = written(tmp_path / "gold.tsv", "")
    guess = written(tmp_path / "guess.tsv", "index\tprediction\n0\t0.5\n1\t1\n2\t1.5\n")
    assert score("made_up", gold, guess)["headline"] == pytest.approx(100)
    with pytest.raises(DataError, match="line 4: 'x' is not a number"):
        score("made_up", gold, written(guess, "index\tprediction\n0\t0.5\n1\t1\n2\tx\n"))


def test_choice_is_scored(tmp_path: Path, task) -> None:
    def read(folder: Path, split: str) -> list[Example]:
        return [Example(id=str(n), inputs=("c", "a", "b"), gold=n % 2) for n in (7, 4)]

    task(Form.CHOICE, read=read)
    gold, guess = written(tmp_path / "gold", ""), tmp_path / "guess.jsonl"
    written(guess, '{"idx": 4, "label": 0}\n{"idx": 7, "label": 0}\n')
    assert score("made_up", gold, guess)["accuracy"] == 50
    for text, message in (
        ('{"idx": 7, "label": 0}\n', "no prediction for the example 4"),
        ('{"idx": 7, "label": 0}\n{"idx": 7, "label": 1}\n', "line 2: idx 7 appears twice"),
        ('{"idx": 7, "label": 0}\n{"idx": 4, "label": 1}\n{"idx": 5, "label": 1}', "a prediction for 5"),
        ('{"idx": 7, "label": "b"}\n', 'line 1: the key "label" is'),
        (
            '{"idx": 7, "label": 2}\n{"idx": 4, "label": 1}\n',
            "the label 2 of idx 7 is no choice: they count from 0 to 1",
        ),
        ('{"idx": 7, "label": 0}\n{"idx": 4, "label": -1}\n', "the label -1 of idx 4 is no choice"),
        ("\n7\n", "line 2: a JSON object was expected"),
        ("{", "line 1: this is not JSON"),
    ):
        with pytest.raises(DataError, match=message):
            score("made_up", gold, written(guess, text))


STSB = "index\tgenre\tfilename\tyear\told_index\tsource1\tsource2\tsentence1\tsentence2\tscore\n"
COPA = {"premise": "p", "choice1": "a", "choice2": "b", "question": "cause", "label": 1, "idx": 0}
WRITTEN = {
    "eng.testa": ("conll2003", [["B-ORG", "O"], ["B-LOC"]], [["B-ORG"], ["O"]], "1 tags for the 2 words of 0"),
    "val.jsonl": ("copa", [1], [2], "the label 2 of idx 0 is no choice"),
    "dev.tsv": ("stsb", [4.0, 1], ["many", 1], "line 1: the prediction 'many' is not a number"),
    "cola.tsv": ("cola", ["1", "0"], ["2", "0"], "line 1: the label '2' is not one of '0', '1'"),
}
GOLD = {
    "eng.testa": "EU I-ORG\nsays O\n\nBonn B-LOC\n",
    "val.jsonl": json.dumps(COPA),
    "dev.tsv": STSB + "0\tg\tf\ty\t0\ts\ts\ta\tb\t2.5\n1\tg\tf\ty\t0\ts\ts\ta\tb\t1\n",
    "cola.tsv": "gj04\t1\t\tHe goes.\ngj04\t0\t*\tHe go.\n",
}


@pytest.mark.parametrize("file", WRITTEN)
def test_files_of_predict_are_scored_for_every_form(tmp_path: Path, file: str) -> None:
    """The lines may be in any order."""
    name, right, wrong, message = WRITTEN[file]
    gold, guess = written(tmp_path / file, GOLD[file]), tmp_path / "guess.jsonl"
    lines = [json.dumps({"id": str(n), "prediction": value}) for n, value in enumerate(right)]
    assert score(name, gold, written(guess, "\n".join(reversed(lines))))["headline"] == pytest.approx(100)
    for rows, pattern in (
        ([json.dumps({"id": str(n), "prediction": value}) for n, value in enumerate(wrong)], message),
        ([lines[0], lines[0]], "line 2: the id 0 appears twice"),
        ([*lines, '{"id": "9"}'], f'line {len(lines) + 1}: the keys "id", a text, and "prediction" were expected'),
        ([lines[0][:-1] + ', "prediction": 1}'], "line 1: the object has the key 'prediction' twice"),
        ([*lines, lines[0].replace('"0"', '"9"', 1)], "has a prediction for 9, which"),
    ):
        with pytest.raises(DataError, match=pattern):
            score(name, gold, written(guess, "\n".join(rows)))


@pytest.mark.parametrize("value", ["1e999", "NaN", "-Infinity", "9" * 400, "true", '"1_0"', '"1"'])
def test_invalid_numbers_are_reported(tmp_path: Path, value: str) -> None:
    """An integer of 400 digits used to raise a traceback."""
    gold = written(tmp_path / "dev.tsv", GOLD["dev.tsv"])
    rows = f'{{"id": "0", "prediction": {value}}}\n{{"id": "1", "prediction": 1}}\n'
    with pytest.raises(DataError, match="guess, line 1: the prediction .* is not a number"):
        score("stsb", gold, written(tmp_path / "guess", rows))
    with pytest.raises(DataError, match="guess, line 2: .* is not a number"):
        score("stsb", gold, written(tmp_path / "guess", f"index\tprediction\n0\t{value[:40]}_0\n1\t1\n"))


def test_numeric_ids_are_read_as_text(tmp_path: Path) -> None:
    gold = written(tmp_path / "dev.tsv", GOLD["dev.tsv"])
    rows = '{"id": 1, "prediction": 1}\n{"id": 0, "prediction": 4}\n'
    assert score("stsb", gold, written(tmp_path / "guess", rows))["pearson"] == pytest.approx(100)


PACKED = {
    "conll2003": ("eng.testa", GOLD["eng.testa"], GOLD["eng.testa"]),
    "copa": ("val.jsonl", GOLD["val.jsonl"], '{"idx": 0, "label": 1}\n'),
    "stsb": ("dev.tsv", GOLD["dev.tsv"], "index\tprediction\n0\t4\n1\t1\n"),
    "cola": ("dev.tsv", GOLD["cola.tsv"], "index\tprediction\n0\t1\n1\t0\n"),
    "squad11": ("dev-v1.1.json", json.dumps({"data": [{"title": "t", "paragraphs": [{"context": "X", "qas": [
        {"id": "a", "question": "?", "answers": [{"text": "X", "answer_start": 0}]}]}]}]}), '{"a": "X"}'),
    "semeval14_restaurants": ("Restaurants_Test_Gold.xml", *['<?xml version="1.0"?><sentences><sentence id="1"><text>ok'
        '</text><aspectCategories><aspectCategory category="food" polarity="positive"/></aspectCategories></sentence>'
        "</sentences>"] * 2),
    "absa": ("test_convert.json", *['[{"raw_words": "a b", "words": ["a", "b"], "aspects": [{"index": 0, "from": 0, '
        '"to": 1, "polarity": "POS", "term": ["a"]}], "opinions": [{"index": 0, "from": 1, "to": 2, '
        '"term": ["b"]}]}]'] * 2),
}  # fmt: skip


@pytest.mark.parametrize("name", PACKED)
def test_file_names_do_not_matter_and_any_file_may_be_gzipped(tmp_path: Path, name: str) -> None:
    file, gold, guess = PACKED[name]
    right = score(name, written(tmp_path / file, gold), written(tmp_path / "plain", guess))
    assert right["headline"] == pytest.approx(100)
    variants = [("guess.jsonl", lambda text: text), ("guess.txt", lambda text: "\ufeff" + text.replace("\n", "\r\n"))]
    for name_of_file, change_text in variants:
        for end in ("", ".gz"):
            data = change_text(guess).encode()
            (tmp_path / (name_of_file + end)).write_bytes(gzip.compress(data) if end else data)
            packed = tmp_path / (file + end)
            packed.write_bytes(gzip.compress(gold.encode()) if end else gold.encode())
            assert score(name, packed, tmp_path / (name_of_file + end)) == right


def test_extra_scores_of_predict_are_used(tmp_path: Path) -> None:
    """The no-answer scores of SQuAD 2.0, and the probabilities for the areas under the curve of SentiHood."""
    questions = [{"id": "a", "question": "?", "answers": [{"text": "X", "answer_start": 0}], "is_impossible": False}]
    questions.append({"id": "b", "question": "?", "answers": [], "is_impossible": True})
    gold = written(
        tmp_path / "dev-v2.0.json",
        json.dumps({"data": [{"title": "t", "paragraphs": [{"context": "X Y", "qas": questions}]}]}),
    )
    rows = [{"id": "a", "prediction": "X", "no_answer": 0.1}, {"id": "b", "prediction": "Y", "no_answer": 3.5}]
    result = score("squad20", gold, written(tmp_path / "guess", "\n".join(map(json.dumps, rows))))
    assert (result["f1"], result["best_f1"]) == (50, 100)
    texts = [{"id": 1, "text": "LOCATION1 is safe", "opinions": []}]
    texts[0]["opinions"] = [{"target_entity": "LOCATION1", "aspect": "safety", "sentiment": "Positive"}]
    gold = written(tmp_path / "sentihood-test.json", json.dumps(texts))
    examples = tasks.load("sentihood").read(tmp_path, "test")
    rows = [{"id": e.id, "prediction": "None", "scores": [0.9, 0.1 * (e.gold == "Positive"), 0]} for e in examples]
    guess = tmp_path / "sentihood.test.jsonl"
    result = score("sentihood", gold, written(guess, "\n".join(map(json.dumps, rows))))
    assert (result["aspect_accuracy"], result["sentiment_accuracy"]) == (0, 100)
    with pytest.raises(DataError, match='line 1: "scores" must be 3 numbers'):
        score("sentihood", gold, written(guess, json.dumps(rows[0] | {"scores": [1]})))


def test_a_few_shot_class_without_a_solved_text_is_an_error(tmp_path: Path, task) -> None:
    texts = (Marked("x", (0, 1)), Marked("y", (0, 1), "P1"), Marked("z", (0, 1), "P2"))
    task(Form.FEW_SHOT, read=lambda folder, split: [Example(id="0", inputs=texts, gold="P1")])
    gold, guess = written(tmp_path / "gold.json", ""), tmp_path / "guess"
    assert score("made_up", gold, written(guess, '{"0": "P2"}'))["accuracy"] == 0
    for text in ('{"0": "P3"}', '{"id": "0", "prediction": "P3"}'):
        with pytest.raises(DataError, match="the class 'P3' of 0 is not one of P1, P2"):
            score("made_up", gold, written(guess, text))


def _squad(path: Path) -> Path:
    rows = [{"id": key, "question": "?", "answers": [{"text": text, "answer_start": 0}]} for key, text in ("aX", "bY")]
    return written(path, json.dumps({"data": [{"title": "t", "paragraphs": [{"context": "X Y", "qas": rows}]}]}))


def test_impossible_ranks_and_unknown_candidates_are_errors(tmp_path: Path) -> None:
    written(tmp_path / "questions-words.txt", ": capitals\nathens greece rome italy\nparis france rome italy\n")
    guess, right = tmp_path / "ranks.jsonl", {"id": "3", "prediction": 1.5, "best": "italy"}
    for value, best, message in (
        (3, "greece", None),  # six words, without the three of the question
        (4, None, "the rank 4 of 2 is beyond its 3 candidates"),
        (2, "Italia", "'Italia', the best for 2, is not one of its candidates"),
    ):
        row = {"id": "2", "prediction": value} | ({"best": best} if best else {})
        written(guess, f"{json.dumps(row)}\n{json.dumps(right)}\n")
        if message is None:
            assert score("word_analogy", tmp_path, guess)["examples"] == 2
            continue
        with pytest.raises(DataError, match=message):
            score("word_analogy", tmp_path, guess)


def test_squad_is_scored(tmp_path: Path) -> None:
    gold, guess = _squad(tmp_path / "any name.json"), tmp_path / "pred.json"
    result = score("squad11", gold, written(guess, '{"b": "the y!", "a": ""}'))
    assert result == {"task": "squad11", "examples": 2, "exact_match": 50.0, "f1": 50.0, "headline": 50.0}
    for text, message in (
        ('{"a": "x"}', "no prediction for the example b"),
        ('{"a": "x", "b": "y", "c": "z"}', "prediction for c, which .*any name.json does not hold"),
        ('{"a": "x", "a": "y", "b": ""}', "has the key 'a' twice"),
        ('{"a": "x", "b": null}', "the answer to b must be a text"),
        ('["x"]', "one JSON object"),
        ('{"a":\n', "not JSON"),
        ("[" * 100_000, "nested too deeply"),
        (f'{{"a": {"1" * 5000}}}', "not JSON"),
    ):
        with pytest.raises(DataError, match=message):
            score("squad11", gold, written(guess, text))


def test_unsuitable_tasks_folders_and_names_are_errors(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="WikiText-2 has no predictions that a file could hold"):
        score("wikitext2", tmp_path, tmp_path)
    with pytest.raises(DataError, match="is a folder; name one file of it, such as dev-v1.1.json"):
        score("squad11", tmp_path, tmp_path)
    with pytest.raises(tasks.UnknownTask, match="squad11"):
        score("squad1.1", tmp_path, tmp_path)


def test_scoring_imports_no_tensorflow(tmp_path: Path) -> None:
    _squad(tmp_path / "gold.json")
    written(tmp_path / "pred.json", '{"a": "X", "b": "Y"}')
    code = (
        "import sys; from pathlib import Path; from ptmbench.bench.scoring.score_files import score\n"
        f"f = Path({str(tmp_path)!r}); print(score('squad11', f / 'gold.json', f / 'pred.json')['f1'])\n"
        "print('tensorflow' in sys.modules or 'keras' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["100.0", "False"]
