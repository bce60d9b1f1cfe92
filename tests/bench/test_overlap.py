"""Overlap of report splits with training data and corpora: only planted duplicates are counted."""

import dataclasses
import gzip
import json
from pathlib import Path

import numpy as np
import pytest

from ptmbench import tasks
from ptmbench.bench.__main__ import main
from ptmbench.bench.data import corpora, overlap
from ptmbench.bench.data.overlap import against, between
from ptmbench.bench.engine.budget import Budget
from ptmbench.bench.runs import cell as cells
from ptmbench.bench.runs import counted
from ptmbench.bench.runs.answers import Context
from ptmbench.bench.runs.artefacts import Cell, Given, Row
from ptmbench.bench.runs.job import Job
from ptmbench.bench.runs.plan import Plan
from ptmbench.bench.runs.trainings import Pretraining
from ptmbench.bench.runs.work import Worker
from ptmbench.bench.scoring import score
from ptmbench.leaderboard import board, tables
from ptmbench.leaderboard.records import record
from ptmbench.leaderboard.records.store import load
from ptmbench.models.text.runs import fold_words
from ptmbench.tasks.forms import Answer, Form, Part
from ptmbench.tasks.task import Example
from tests.leaderboard.made import record as made

DATA = Path(__file__).resolve().parents[2].parent / "shared" / "data"


def sentences(count, size, seed=0, vocabulary=2000):
    rng = np.random.default_rng(seed)
    return [" ".join(f"w{word}" for word in rng.integers(0, vocabulary, size)) for _ in range(count)]


def examples(texts, golds=None):
    golds = golds or ["0"] * len(texts)
    texts = [text if isinstance(text, tuple) else (text,) for text in texts]
    return [Example(id=str(i), inputs=text, gold=gold) for i, (text, gold) in enumerate(zip(texts, golds, strict=True))]


def replace_words(text, count):
    """Replaces ``count`` words of ``text``, evenly spread."""
    words = text.split()
    for place in np.linspace(0, len(words) - 1, count + 2)[1:-1].astype(int):
        words[place] = f"new{place}"
    return " ".join(words)


@pytest.mark.parametrize("size", [5, 10, 20, 60])
def test_planted_duplicates_are_found_and_nothing_else(size):
    train = sentences(400, size)
    fifth = size // 5
    report = [text.upper() + "!" for text in train[:50]]  # equal except for case and punctuation
    report += [replace_words(text, fifth) for text in train[50:100]]  # near: a fifth of the words are new
    report += [replace_words(text, fifth + 1) for text in train[100:150]]  # one new word too many
    report += sentences(50, size, seed=1)
    found = between(tasks.load("sst2"), examples(train), examples(report, ["0"] * 25 + ["1"] * 175))
    counts = found.counts["train"]
    assert (counts["same"], counts["same_label"], counts["near"]) == (50, 25, 100)
    assert set(found.overlapping) >= set(range(100)) and not set(found.overlapping) & set(range(150, 200))


def test_all_texts_of_an_example_have_to_match_one_training_example():
    a, b, c, d = sentences(4, 12)
    train = examples([(a, b), (c, d)])
    report = examples([(a, b), (replace_words(a, 1), replace_words(b, 2)), (a, d), (b, a), (a, replace_words(b, 3))])
    counts = between(tasks.load("rte"), train, report).counts
    assert (counts["train"]["same"], counts["train"]["near"]) == (1, 2)
    assert (counts["run_words"], counts["train"]["run"], counts["train"]["covered"]) == (13, 4, 3)


def test_repeated_examples_and_their_labels_are_counted():
    texts = ["One text here.", "one text HERE", "Another.", "another", "another!", "Alone"]
    report = examples(texts, ["0", "1", "0", "0", "0", "1"])
    assert between(tasks.load("sst2"), None, report).counts["report"] == {
        "examples": 6, "repeated": 5, "other_label": 2,
    }  # fmt: skip
    unlabelled = between(tasks.load("sst2"), examples(["Alone"]), examples(texts, [None] * 6)).counts
    assert unlabelled["report"]["other_label"] is None and unlabelled["train"]["same_label"] is None
    assert unlabelled["train"]["same"] == 1


@pytest.mark.parametrize(
    ("sizes", "expected"), [((3,) * 20, 8), ((10,) * 20, 10), ((40,) * 20, 13), ((5, *[12] * 39), 12)]
)
def test_run_length_follows_short_examples_within_bounds(sizes, expected):
    report = examples([" ".join("x" * size) for size in sizes])
    assert between(tasks.load("sst2"), None, report).counts["run_words"] == expected


def test_overlap_with_a_corpus_ignores_case_and_short_examples():
    long, short = sentences(2, 40), sentences(3, 6, seed=1)
    words = long[0].split()
    report = [long[0], " ".join(words[:20]) + " " + sentences(1, 20, 5)[0], long[1], short[0], short[1], "two words"]
    corpus = [f"Before. {long[0]}, after", "", f"and {short[0].upper()}", f"{short[1][:-4]} cut", "two words"]
    (found,) = against([(tasks.load("sst2"), examples(report))], corpus)
    assert found.counts == {"run_words": 8, "checked": 5, "run": 3, "covered": 2}
    assert found.overlapping == (0, 3)


def test_runs_do_not_cross_documents():
    (text,) = sentences(1, 20)
    first, second = " ".join(text.split()[:10]), " ".join(text.split()[10:])
    task = tasks.load("sst2")
    (whole,) = against([(task, examples([text]))], [text])
    (cut,) = against([(task, examples([text]))], [first, second])
    assert whole.counts["covered"] == 1 and cut.counts["run"] == 0


@pytest.mark.parametrize(
    ("form", "inputs", "expected"),
    [
        (Form.TAGGING, ("The", "cat"), ("The cat",)),
        (Form.SPAN, ("Who?", "A piece. ", "Another."), ("Who?", "A piece. Another.")),
        (Form.FEW_SHOT, ("asked", "solved", "solved too"), ("asked",)),
        (Form.CHOICE, ("context", "one", "two"), ("context", "one", "two")),
    ],
)
def test_texts_compared_for_each_form(form, inputs, expected):
    assert overlap.texts_of(form, Example(id="0", inputs=inputs)) == expected


def test_a_cloze_is_searched_with_its_answer():
    task = tasks.load("lama")
    report = [Example(id="0", inputs=("The capital of that large country is ____ .",), gold="Paris")]
    corpus = ["I know that the capital of that large country is Paris."]
    assert against([(task, report)], corpus)[0].counts["covered"] == 1
    assert against([(task, report)], [corpus[0].replace("Paris", "Rome")])[0].counts["covered"] == 0


def test_corpus_formats_give_the_same_counts(world, tmp_path):
    """Plain text, JSON Lines, gzip, and a folder of token ids, in which unknown words are word pieces or missing."""
    task = tasks.load("sst2")
    report = task.examples(world, "dev")
    planted = [" ".join(example.inputs) for example in report[:40]]
    other = [sentence for document in corpora.corpora.read([world / "corpus"]) for sentence in document][:3000]
    documents = [" ".join(other[i::40]) + " " + text for i, text in enumerate(planted)]
    (tmp_path / "a.txt").write_text("\n\n".join(documents))
    (tmp_path / "b.jsonl").write_text("".join(json.dumps({"text": text}) + "\n" for text in documents))
    (tmp_path / "c.txt.gz").write_bytes(gzip.compress("\r\n\r\n".join(documents).encode()))
    corpora.tokenise([tmp_path / "a.txt"], tmp_path / "d", kind="wordpiece", size=400, processes=1)
    found = []
    for name in ("a.txt", "b.jsonl", "c.txt.gz", "d"):
        texts, as_read = corpora.texts([tmp_path / name])
        found.append(against([(task, report)], texts, as_read)[0])
    assert found[0].counts["covered"] >= 35 and set(found[0].overlapping) >= set(range(35)) - {
        row for row in range(40) if fold_words(planted[row]).count(b"\0") < overlap.LEAST
    }
    assert found[0] == found[1] == found[2]
    assert set(found[3].overlapping) >= set(found[0].overlapping)


def plan_of(world, task="sst2", limit=0):
    found = tasks.load(task)
    cell = Cell(
        row=Row(name="majority", kind="baseline"), task=task, task_version=found.version, form=found.form,
        data_sha256="x", adaptation="baseline", settings={}, seed=0, tokenizer="", limit=limit,
    )  # fmt: skip
    return Plan((cell,))


def test_counts_are_cached_by_content_and_recomputed_when_damaged(world, monkeypatch, tmp_path):
    monkeypatch.setenv("PTMBENCH_CACHE", str(tmp_path / "cache"))
    plan, calls = plan_of(world), []
    monkeypatch.setattr(overlap, "between", lambda *parts: calls.append(1) or between(*parts))
    first = counted.of_cell(plan.cells[0], plan, world)
    assert first == counted.of_cell(plan.cells[0], plan, world) and len(calls) == 1
    assert first.counts["train"]["examples"] == 800 and "corpus" not in first.counts
    (path,) = (tmp_path / "cache" / "overlap").glob("*.json")
    path.write_text("{")
    assert counted.of_cell(plan.cells[0], plan, world) == first and len(calls) == 2
    limited = plan_of(world, limit=30)
    assert counted.of_cell(limited.cells[0], limited, world).counts["train"]["examples"] == 30
    assert counted.of_cell(limited.cells[0], limited, tmp_path) == counted.of_cell(limited.cells[0], limited, world)


def test_a_corpus_is_read_once_for_all_tasks(world, monkeypatch, tmp_path):
    monkeypatch.setenv("PTMBENCH_CACHE", str(tmp_path / "cache"))
    calls = []
    monkeypatch.setattr(overlap, "against", lambda *parts: calls.append(1) or against(*parts))
    hashes = {"sst2": "a", "conll2003": "b", "qqp": "c"}  # the data of the last task do not exist
    found = counted.of_corpus(hashes, world, 0, [world / "corpus"], "d" * 64)
    assert set(found) == {"sst2", "conll2003"} and len(calls) == 1
    assert counted.of_corpus({"sst2": "a"}, world, 0, [world / "corpus"], "d" * 64) == {"sst2": found["sst2"]}
    assert len(calls) == 1


def test_overlap_with_the_corpus_of_a_pretraining_is_counted(world, tmp_path):
    """Overlapping examples of both are merged. A corpus that cannot be read, or is not known, is marked as unknown."""
    (cell,) = plan_of(world).cells
    first = tasks.load("sst2").examples(world, "dev")[0].inputs[0]
    (tmp_path / "a.txt").write_text(f"{first}\n")
    row = Row(name="bert", kind="pretrained", model="bert", size="tiny")

    def found(path, sha256, key=None):
        training = Pretraining(
            model="bert", size="tiny", corpus=(str(path),), corpus_sha256=sha256, corpus_name="a",
            tokenizer="wordpiece", vocabulary=100, budget=Budget(steps=1), recipe={},
        )  # fmt: skip
        one = dataclasses.replace(cell, row=row, pretraining=key or training.key)
        cut = Given(key=training.tokenizer_key, path="x")
        return counted.of_cell(one, Plan((cut, Given(key="checkpoint:x", path="x"), training, one)), world)

    own = counted.of_cell(cell, Plan((cell,)), world)
    both = found(tmp_path / "a.txt", "a" * 64)
    assert both.counts["corpus"]["covered"] == 1 and both.overlapping == tuple(sorted({0, *own.overlapping}))
    assert "no corpus file" in found(tmp_path / "b.txt", "b" * 64).counts["corpus"]["unknown"]
    assert "not available" in found(tmp_path / "a.txt", "a" * 64, "checkpoint:x").counts["corpus"]["unknown"]


def test_a_failed_overlap_count_does_not_prevent_the_record(world, tmp_path, monkeypatch, capsys):
    plan = plan_of(world)
    job = Job(data=str(world), source={}, command="", keep=False, length=64)
    monkeypatch.setattr(counted, "of_cell", lambda *parts: 1 / 0)
    Worker(tmp_path, plan, job).do(plan.cells[0].key)
    (path,) = (tmp_path / "records").glob("*.json")
    assert record.read(path).status == "ok" and "was not counted: ZeroDivisionError" in capsys.readouterr().err


def test_a_record_has_overlap_counts_and_the_clean_score(world, tmp_path):
    plan = plan_of(world)
    (cell,) = plan.cells
    found = counted.of_cell(cell, plan, world)
    assert found.overlapping
    result = cells.run(cell, Context(data=world, out=tmp_path, overlap=found))
    kept = record.read(record.write(tmp_path, result))
    assert kept.task["overlap"] == found.counts | {"left_out": len(found.overlapping)}
    gold = [example.gold for example in tasks.load("sst2").examples(world, "dev")]
    right = [g == max(set(gold), key=gold.count) for i, g in enumerate(gold) if i not in found.overlapping]
    constant = 100 * sum(right) / len(right)
    assert kept.scores["clean"]["value"] in (pytest.approx(constant), pytest.approx(100 - constant))
    before = cells.run(cell, Context(data=world, out=tmp_path))
    assert "overlap" not in before.task and "clean" not in before.scores
    assert before.scores["headline"] == result.scores["headline"] and before.key == result.key


def test_the_clean_score_excludes_all_parts_of_an_overlapping_question():
    task = tasks.load("multirc")
    golds = [Part("1", whole="a"), Part("0", whole="a"), Part("1", whole="b"), Part("1", whole="c")]
    report = examples([("text", str(i)) for i in range(4)], golds)
    clean, left_out = score.clean(task, report, ["0", "0", "1", "1"], [1])
    assert left_out == 2 and clean["clean"]["value"] == 100.0
    assert score.clean(task, report, ["1"] * 4, []) == ({}, 0)
    assert score.clean(task, report, ["1"] * 4, range(4)) == ({}, 4)


def counts_of(overlapping=13, covered=40):
    return {
        "version": 1, "run_words": 8, "left_out": 50, "report": {"examples": 1000, "repeated": 4, "other_label": 2},
        "train": {
            "examples": 8000, "same": 3, "same_label": 2, "near": 12, "run": 20, "covered": 5,
            "overlapping": overlapping,
        },
        "corpus": {"run_words": 8, "checked": 990, "run": 50, "covered": covered},
    }  # fmt: skip


def test_the_board_shows_overlap_counts_and_the_clean_score(tmp_path):
    for seed, clean in enumerate((60.0, 62.0)):
        scores = made(value=70.0).scores | {"clean": {"value": clean, "low": None, "high": None}}
        record.write(tmp_path, made(seed=seed, value=70.0, scores=scores, task_={"overlap": counts_of()}))
    record.write(
        tmp_path, made(task="sst2", task_={"overlap": counts_of(9, 9) | {"corpus": {"unknown": "Not at hand."}}})
    )
    record.write(tmp_path, made(task="conll2003"))  # a record from before overlap was counted
    page = board.build([tmp_path], tmp_path).read_text(encoding="utf-8")
    for words in (
        "<small>1 % in training</small>",
        "4 % of the examples in its corpus",
        "13 of 1000 examples (1.3 %) overlap with the 8000 training examples: 12 are near one, 3 of them the same",
        "4 examples have the text of another one (2 with different labels)",
        "Corpus: 40 of 1000 examples (4.0 %)",
        "Without 50 overlapping examples: 61.0.",
        "Not at hand.",
    ):
        assert page.count(words) >= 1, words
    assert page.count("1 % in training") == page.count("<small>1 % in training</small>") > 0
    records = load([tmp_path]).records
    frame = tables.overlap(records).set_index("task")
    assert list(frame.index) == ["CoLA", "SST-2"] and frame.overlapping.tolist() == [13, 9]
    assert frame.share.tolist() == [0.013, 0.009] and frame["same label"].tolist() == [2, 2]
    cell = tables.cells(records).set_index("task").loc["CoLA"]
    assert (cell["share in training"], cell["share in corpus"], cell["clean mean"]) == (0.013, 0.04, 61.0)
    assert "4 % of the examples in its corpus" in cell["note"]
    assert "(1.3 %)" in board.text([tmp_path], "every-eval-ever")
    assert "## Examples of the report split that overlap" in board.text([tmp_path])


def test_a_record_with_counts_of_another_type_is_refused(tmp_path):
    broken = counts_of()
    broken["train"]["near"] = "many"
    with pytest.raises(record.RecordError, match="task.overlap.train.near"):
        record.write(tmp_path, made(task_={"overlap": broken}))


@pytest.mark.slow
def test_check_reports_overlap(world, capsys):
    assert main(["data", "check", str(world), "--corpus", str(world / "corpus"), "--json"]) == 0
    rows = {(row["task"], row["split"]): row for row in json.loads(capsys.readouterr().out)}
    found = rows["sst2", "dev"]["overlap"]
    assert found["train"]["examples"] == rows["sst2", "train"]["rows"] and found["corpus"]["checked"] > 0
    assert "overlap" not in rows["sst2", "train"]


def test_check_prints_tables(world, tmp_path, capsys):
    (tmp_path / "glue").mkdir()
    (tmp_path / "glue/SST-2").symlink_to(world / "glue/SST-2")
    assert main(["data", "check", str(tmp_path)]) == 0
    out = capsys.readouterr().out
    assert "that the training split has too" in out and "corpus" not in out
    assert main(["data", "check", str(tmp_path), "--corpus", str(world / "corpus")]) == 0
    assert "that the corpus has too" in capsys.readouterr().out


@pytest.mark.slow
@pytest.mark.skipif(not (DATA / "glue" / "WNLI").is_dir(), reason="the shared copies of real data are not there")
def test_wnli_shares_sentences_between_training_and_dev():
    task = tasks.load("wnli")
    counts = between(task, task.examples(DATA, "train"), task.examples(DATA, "dev")).counts
    assert counts["report"] == {"examples": 71, "repeated": 0, "other_label": 0}
    assert (counts["train"]["same"], counts["train"]["near"], counts["train"]["run"]) == (0, 58, 67)


def test_span_answers_are_compared_as_labels():
    report = [
        Example(id=str(i), inputs=("Who?", "Ann or Bob."), gold=(Answer(name, 0),)) for i, name in enumerate("ab")
    ]
    counts = between(tasks.load("squad11"), report[:1], report).counts
    assert counts["report"]["other_label"] == 2 and counts["train"]["same_label"] == 1
