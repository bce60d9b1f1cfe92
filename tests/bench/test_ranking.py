"""Rankings: rows of the two towers, the loss against NumPy, ranks from vectors, and a whole cell."""

import numpy as np
import pytest

from ptmbench.bench import baselines
from ptmbench.bench.adapt import settings as adaptation_settings
from ptmbench.bench.adapt.heads import ranking, stack, tie_safe_products
from ptmbench.bench.adapt.settings import Settings
from ptmbench.bench.runs import cell as cells
from ptmbench.bench.runs import estimate
from ptmbench.bench.runs.answers import Context
from ptmbench.bench.runs.plan import Cell, Row, rows_of
from ptmbench.leaderboard.records import record
from ptmbench.models.card import Size
from ptmbench.models.pretrainable import Encoding
from ptmbench.models.text.tokenizers import Tokenizer
from ptmbench.tasks import load
from ptmbench.tasks.forms import Form, Piece, Target
from ptmbench.tasks.task import Example

TEXTS = {"1": "land reform", "2": "reform", "3": "call", "4": "shout aloud"}
TOKENIZER = Tokenizer.train("word", [*TEXTS.values(), "hypernym inverse , noun"] * 3, 200)


def make_example(name, answer, relation="hypernym", others=()):
    gold = Target(answer, TEXTS, {answer, *others}, kind="tail")
    return Example(id=f"{name}-{answer}", inputs=(Piece(TEXTS[name], name), relation), gold=gold)


TRAIN = [
    make_example("1", "2", others=("3", "4")),
    make_example("1", "3", others=("2", "4")),
    make_example("4", "3", "inverse hypernym"),
]


def codec(train=TRAIN, **changes):
    return ranking.Codec(load("wn18rr"), TOKENIZER, Settings(**changes), train)


def decode(tokens):
    return " ".join(TOKENIZER.pieces(tokens[tokens != 0]))


def test_training_rows_have_a_question_and_its_answer():
    rows = codec().training_rows(TRAIN)
    assert [[decode(text) for text in row.arrays["tokens"]] for row in rows] == [
        ["[CLS] land reform [SEP] hypernym [SEP]", "[CLS] reform [SEP]"],
        ["[CLS] land reform [SEP] hypernym [SEP]", "[CLS] call [SEP]"],
        ["[CLS] shout aloud [SEP] inverse hypernym [SEP]", "[CLS] call [SEP]"],
    ]
    assert [int(row.arrays["answer"]) for row in rows] == [1, 2, 2]
    # Answers that only other splits have (4) are not used in training.
    assert [sorted(row.arrays["others"].tolist()) for row in rows] == [[1, 2], [1, 2], [2]]


def test_prediction_rows_are_questions_and_then_all_candidates():
    questions = [make_example("1", "4"), make_example("3", "2")]
    made = codec()
    rows = made.rows(questions)
    assert [decode(row.arrays["tokens"][0]) for row in rows[2:]] == [f"[CLS] {text} [SEP]" for text in TEXTS.values()]
    assert [row.arrays["tokens"].shape[0] for row in rows] == [1] * 6
    vectors = {"q0": [1, 0], "q1": [0, 1], "1": [0.1, 0.1], "2": [0.9, 0.3], "3": [0.5, 0.2], "4": [0.4, 0.5]}
    outputs = [np.array([v, [9, 9]], float) for v in vectors.values()]  # the second vector is of a repeated text
    # Question 1 has scores .1 .9 .5 .4: 4 is third, or first if 2 and 3 are also correct. Question 3: .1 .3 .2 .5.
    actual = made.predictions(questions, rows, outputs)
    assert actual == [3, 2] and [guess.best for guess in actual] == ["2", "4"]
    assert made.predictions([make_example("1", "4", others=("2", "3")), questions[1]], rows, outputs) == [1, 2]


def test_candidates_with_equal_vectors_tie():
    rng = np.random.default_rng(0)
    questions, candidates = (rng.normal(size=(n, 64)).astype(np.float32) for n in (50, 300))
    duplicates = rng.integers(0, 300, 3001)
    actual = tie_safe_products(candidates[duplicates])(questions)
    assert np.allclose(actual, questions @ candidates[duplicates].T, atol=1e-4)
    for scores in actual:
        assert len(set(zip(duplicates.tolist(), scores.tolist(), strict=True))) == len(set(duplicates.tolist()))


def test_the_loss_excludes_other_correct_answers():
    rng, head = np.random.default_rng(0), ranking.Head(1)
    batch = stack(codec().training_rows(TRAIN))
    pooled = rng.normal(size=(6, 5)).astype(np.float32)  # three questions, each followed by its answer
    vectors = head(Encoding(tokens=None, pooled=pooled, layers=()), batch)
    unit = pooled / np.linalg.norm(pooled, axis=1, keepdims=True)
    scores = 20.0 * unit[::2] @ unit[1::2].T
    scores[0, [1, 2]] = scores[1, [0, 2]] = -np.inf  # 2 and 3 are both correct for 1, and answer 3 appears twice
    scores[2, 1] = -np.inf  # the same answer
    expected = np.mean(np.log(np.exp(scores).sum(axis=1)) - np.diag(scores))
    assert float(head.loss(vectors, batch)) == pytest.approx(expected, rel=1e-4, abs=1e-6)


def test_the_embeddings_baseline_is_only_run_by_name():
    names = [row.name for row in rows_of(["bert", "embeddings"], ["tiny"], baselines.by_default([load("wn18rr")]))]
    assert names == ["bert", "random-bert", "embeddings", "bag-of-words", "majority"]


def test_a_cell_learns_a_graph_and_is_recorded(tmp_path):
    folder = tmp_path / "data" / "WN18RR"
    folder.mkdir(parents=True)
    (folder / "entity2text.txt").write_text("".join(f"{n}\t{text}\n" for n, text in TEXTS.items()))
    for split in ("train", "valid", "test"):
        (folder / f"{split}.txt").write_text("1\thypernym\t2\n3\thypernym\t4\n")
    settings = adaptation_settings.changed(
        adaptation_settings.defaults(Form.RANKING, "finetune"), {"epochs": 12, "patience": 12, "length": 32}
    )
    cell = Cell(
        row=Row(name="random-bert", kind="random", model="bert", size="tiny"), task="wn18rr", task_version=1,
        form=Form.RANKING, data_sha256="x", adaptation="finetune", settings=adaptation_settings.recorded(settings),
        seed=0, tokenizer="x",
    )  # fmt: skip
    shape = Size(layers=1, width=32, heads=2, inner=64, length=32)
    context = Context(data=tmp_path / "data", out=tmp_path, shape=shape, tokenizer=TOKENIZER, source={"name": "x"})
    result = cells.run(cell, context)
    assert result.status == "ok", result.reason
    actual = record.read(record.write(context.out, result))
    assert actual.curve[-1]["loss"] < actual.curve[0]["loss"]
    assert 25 <= actual.headline["value"] <= 100 and actual.task["examples"] == 4
    examples = load("wn18rr").examples(context.data, "train")
    rows = ranking.Codec(load("wn18rr"), TOKENIZER, settings, examples).training_rows(examples)
    assert actual.cost["tokens"] == 12 * sum(row.tokens for row in rows)

    # 12 epochs of four questions (6 tokens) and answers (3.5); four questions once; four candidates after each epoch.
    tokens, _, reason = estimate.cell_cost(cell, context.data, {}, shape)
    assert not reason and tokens == pytest.approx(
        (12 * 4 * (6 + 3.5) + 4 * 6 + 13 * 4 * 3.5) * estimate.TOKENS_PER_WORD
    )
