"""Question answering cells, from official files to a record, with answers that are no span and with evidence."""

import gzip
import json

import numpy as np
import pytest

from ptmbench.bench import environment
from ptmbench.bench.adapt import loop
from ptmbench.bench.adapt import settings as adaptation_settings
from ptmbench.bench.adapt.built import adapted
from ptmbench.bench.adapt.heads import span
from ptmbench.bench.runs import cell as cells
from ptmbench.bench.runs.plan import Cell, Row
from ptmbench.leaderboard.records import record
from ptmbench.models.card import Size
from ptmbench.models.text.tokenizers import Tokenizer
from ptmbench.tasks import load

SHAPE = Size(layers=1, width=32, heads=2, inner=64, length=64)
PEOPLE = ("Ann", "Bo", "Cid", "Dee", "Eli", "Fay")
PLACES = ("Oslo", "Rome", "Kyiv", "Łódź")
STORIES = [f"{one} lives in {place} . {one} does not see {PLACES[n - 1]} ." for one in PEOPLE for n, place in
           enumerate(PLACES)]  # fmt: skip


@pytest.fixture(scope="module")
def tokenizer():
    return Tokenizer.train("wordpiece", [*STORIES, "Where does it live ? Does it see it ? yes no unknown"] * 2, 200)


def _facts(n):
    name, place = STORIES[n].split()[0], STORIES[n].split()[3]
    return name, place, STORIES[n].index(place)


def _squad():
    """Returns SQuAD 2.0 data in which every other question has no answer."""
    rows = []
    for n, story in enumerate(STORIES):
        name, place, start = _facts(n)
        question_data = {"id": f"q{n}", "question": f"Where does {name if n % 2 else 'nobody'} live ?"}
        answers = [{"text": place, "answer_start": start}] if n % 2 else []
        question = question_data | {"answers": answers, "is_impossible": not n % 2}
        rows.append({"title": f"t{n}", "paragraphs": [{"context": story, "qas": [question]}]})
    return {"version": "v2.0", "data": rows}


def _coqa():
    stories = []
    for n, story in enumerate(STORIES):
        name, place, start = _facts(n)
        answer_spans = [(place, start, start + len(place)), ("No.", story.index("."), len(story)), ("unknown", -1, -1)]
        question_data = (f"Where does {name} live ?", "Does it see it ?", "Why ?")
        stories.append(
            {
                "id": str(n),
                "source": "mctest",
                "story": story,
                "questions": [{"turn_id": k, "input_text": text} for k, text in enumerate(question_data, 1)],
                "answers": [
                    {"turn_id": k, "input_text": text, "span_start": a, "span_end": b}
                    for k, (text, a, b) in enumerate(answer_spans, 1)
                ],
            }  # fmt: skip
        )
    return {"version": "1.0", "data": stories}


def _hotpot():
    rows = []
    for n, story in enumerate(STORIES):
        name, place, _ = _facts(n)
        sentences = [part + "." for part in story.split(".")[:2]]
        other = STORIES[n - 5].split(".")[0] + "."
        rows.append(
            {
                "_id": str(n),
                "question": f"Where does {name} live ?",
                "answer": place if n % 3 else "yes",
                "supporting_facts": [[name, 0]],
                "context": [["X", [other]], [name, sentences]],
            }  # fmt: skip
        )
    return rows


FILES = {"squad20": _squad, "coqa": _coqa, "hotpotqa": _hotpot}


@pytest.fixture(params=FILES)
def task(request, tmp_path):
    found, content = load(request.param), json.dumps(FILES[request.param]())
    folder = tmp_path / "data" / found.folders[0]
    folder.mkdir(parents=True)
    for (name,) in found.files.values():
        (folder / name).write_text(content)
    return found


@pytest.mark.slow
def test_cells_run_from_official_files_to_a_record(task, tmp_path, tokenizer):
    environment.prepare()
    settings = adaptation_settings.defaults(task.form, "finetune")
    settings = adaptation_settings.changed(
        settings, {"epochs": 60, "length": 48, "stride": 16, "learning_rate": 3e-3, "dropout": 0, "patience": 60}
    )
    cell = Cell(
        row=Row(name="random-bert", kind="random", model="bert", size="tiny"), task=task.name,
        task_version=task.version, form=task.form, data_sha256="x", adaptation="finetune",
        settings=adaptation_settings.recorded(settings), seed=0, tokenizer="x",
    )  # fmt: skip
    context = cells.Context(
        data=tmp_path / "data", out=tmp_path, shape=SHAPE, tokenizer=tokenizer, source={"name": "by hand"}
    )
    result = cells.run(cell, context)
    assert result.status == "ok", result.reason
    assert result.curve[-1]["loss"] < 0.5 * result.curve[0]["loss"], "the head learns"
    found = record.read(record.write(tmp_path, result))
    assert found.headline["low"] <= found.headline["value"] <= found.headline["high"]
    with gzip.open(tmp_path / found.predictions["file"], "rt") as lines:
        rows = [json.loads(line) for line in lines]
    if task.name == "squad20":
        assert all("no_answer" in row for row in rows) and {"best_f1", "best_f1_threshold"} <= set(found.scores)
        assert found.scores["no_answer_f1"]["value"] > 60
    elif task.name == "hotpotqa":
        assert all("facts" in row for row in rows) and found.scores["facts_f1"]["value"] > 50
    else:
        assert {"no", "unknown"} <= {row["prediction"] for row in rows}
    assert found.headline["value"] > 30


def test_padding_batch_size_and_order_do_not_change_network_predictions(task, tmp_path, tokenizer):
    settings = adaptation_settings.changed(
        adaptation_settings.defaults(task.form, "finetune"), {"length": 24, "stride": 8, "dropout": 0}
    )
    examples = task.examples(tmp_path / "data", "dev")[:9]
    codec = span.Codec(task, tokenizer, settings, examples)
    network = adapted(
        "bert", SHAPE, tokenizer, task.form, "finetune", codec.outputs, adaptation_settings.baked(settings)
    )
    rows = codec.rows(examples)
    assert 0 < network.mean_loss(rows) < 20
    whole = loop.outputs(network, rows)
    order = np.random.default_rng(0).permutation(len(rows))
    for size in (1, 5):
        mixed = loop.outputs(network, [rows[i] for i in order], size=size)
        for i, scores in zip(order, mixed, strict=True):
            kept = len(rows[i].arrays["tokens"]) + len(codec.named)
            np.testing.assert_allclose(scores[:kept], whole[i][:kept], atol=2e-4)
        assert codec.predictions(examples, [rows[i] for i in order], mixed) == codec.predictions(examples, rows, whole)
