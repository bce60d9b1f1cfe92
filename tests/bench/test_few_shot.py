"""Few-shot episodes: rows, prototypes against NumPy, and a cell."""

import json

import numpy as np
import pytest

from ptmbench.bench.adapt import settings as adaptation_settings
from ptmbench.bench.adapt.heads import few_shot, stack
from ptmbench.bench.adapt.settings import Settings
from ptmbench.bench.runs import cell as cells
from ptmbench.bench.runs.answers import Context
from ptmbench.bench.runs.plan import Cell, Row
from ptmbench.leaderboard.records import record
from ptmbench.models.card import Size
from ptmbench.models.pretrainable import Encoding
from ptmbench.models.text.tokenizers import Tokenizer
from ptmbench.tasks import fewrel, load
from ptmbench.tasks.forms import Marked
from ptmbench.tasks.task import Example

TOKENIZER = Tokenizer.train("word", ["Ann * lives in # Oslo and works for Acme"] * 3, 200)


def episode(query, *support, gold="P1"):
    return Example(id="0", inputs=(query, *support), gold=gold)


def text(words, name=None):
    return Marked(words, (words.index("*"), words.index("#")), name)


EPISODES = [
    episode(text("* Ann * lives in # Oslo #"), text("* Ann * and # Oslo #", "P1"), text("* Ann * for # Acme #", "P2")),
    episode(text("# Oslo # * Ann *"), text("* Ann * # Acme #", "P2"), text("* Ann * in # Oslo #", "P1"), gold="P1"),
]


def codec(**changes):
    return few_shot.Codec(load("fewrel"), TOKENIZER, Settings(**changes), EPISODES)


def test_rows_have_the_query_first_and_the_positions_of_entity_marks():
    made = codec()
    assert made.outputs == 4
    rows = made.rows(EPISODES)
    for row, example in zip(rows, EPISODES, strict=True):
        assert row.arrays["tokens"].shape[0] == 3
        for tokens, marks, words in zip(row.arrays["tokens"], row.arrays["marks"], example.inputs, strict=True):
            assert TOKENIZER.pieces(tokens[marks]) == ["*", "#"]
            assert TOKENIZER.pieces(tokens[1 : 1 + len(words.split())]) == words.split()
    assert [row.arrays["classes"].tolist() for row in rows] == [[0, 1], [0, 1]]
    assert [int(row.arrays["label"]) for row in rows] == [0, 1] and rows[1].note == ["P2", "P1"]
    assert made.predictions(EPISODES, rows, [np.array([0, 1, 9, 9])] * 2) == ["P2", "P1"]


@pytest.mark.parametrize(("length", "second"), [(5, "[CLS]"), (7, "[CLS]"), (8, "#")])
def test_truncated_entity_marks_are_replaced_by_the_first_token(length, second):
    row = codec(length=length).rows(EPISODES)[0]
    assert TOKENIZER.pieces(row.arrays["tokens"][0][row.arrays["marks"][0]]) == ["*", second]


def test_scores_are_negative_distances_to_class_means_as_in_numpy():
    rng, head = np.random.default_rng(0), few_shot.Head(4)
    tokens = rng.normal(size=(2 * 5, 6, 3)).astype(np.float32)  # 2 episodes: a query and 2 x 2 support texts
    batch = {
        "marks": np.pad(rng.integers(0, 6, (2, 5, 2)), [(0, 0), (0, 0), (0, 2)]).astype(np.int32),
        "classes": np.array([[0, 0, 1, 1], [0, 1, 0, 1]], np.int32),
        "label": np.array([1, 0], np.int32),
    }
    found = np.array(head(Encoding(tokens=tokens, pooled=None, layers=()), batch))
    assert (found[:, 2:] < -1e8).all()
    losses = []
    for i in range(2):
        x = np.stack([tokens[5 * i + c, batch["marks"][i, c, :2]].reshape(-1) for c in range(5)])
        means = [x[1:][batch["classes"][i] == n].mean(axis=0) for n in range(2)]
        expected = [-10.0 * np.mean((x[0] - mean) ** 2) for mean in means]
        np.testing.assert_allclose(found[i, :2], expected, rtol=1e-5)
        losses.append(np.log(np.exp(expected).sum()) - expected[batch["label"][i]])
    assert float(head.loss(found, batch)) == pytest.approx(np.mean(losses), rel=1e-5)


def test_episodes_are_stacked_to_a_batch():
    batch = stack(codec().rows(EPISODES))
    assert batch["tokens"].shape[:2] == (2, 3) and batch["marks"].shape[:2] == (2, 3)
    assert batch["classes"].tolist() == [[0, 1, -1, -1]] * 2


@pytest.mark.parametrize("model, adaptation", [("bert", "finetune"), ("gpt", "features")])
def test_a_cell_is_trained_on_episodes_and_recorded(model, adaptation, tmp_path, monkeypatch):
    monkeypatch.setattr(fewrel, "EPISODES", {"train": 24, "dev": 12})
    words = ["Ann", "lives", "in", "Oslo", "and", "works", "for", "Acme"]
    ends = {"h": ["", "", [[0]]], "t": ["", "", [[2]]]}
    relations = {f"P{r}": [ends | {"tokens": [*words[n:], words[r % 8]]} for n in range(4)] for r in range(16)}
    (tmp_path / "data" / "fewrel").mkdir(parents=True)
    (tmp_path / "data" / "fewrel" / "val_wiki.json").write_text(json.dumps(relations))
    task = load("fewrel-half-5-2")
    settings = adaptation_settings.changed(
        adaptation_settings.defaults(task.form, adaptation), {"epochs": 2, "length": 32}
    )
    cell = Cell(
        row=Row(name=f"random-{model}", kind="random", model=model, size="tiny"), task=task.name, task_version=1,
        form=task.form, data_sha256="x", adaptation=adaptation, settings=adaptation_settings.recorded(settings),
        seed=0, tokenizer="x",
    )  # fmt: skip
    shape = Size(layers=1, width=32, heads=2, inner=64, length=32)
    context = Context(data=tmp_path / "data", out=tmp_path, shape=shape, tokenizer=TOKENIZER, source={"name": "x"})
    result = cells.run(cell, context)
    assert result.status == "ok", result.reason
    found = record.read(record.write(context.out, result))
    assert found.task["examples"] == 12 and found.cost["steps"] > 0 and 0 <= found.headline["value"] <= 100
