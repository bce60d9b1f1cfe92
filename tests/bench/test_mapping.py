"""Maps between word vectors: Procrustes against SciPy, CSLS by brute force, rows by hand, and a whole cell."""

import keras
import numpy as np
import pytest
import tensorflow as tf
from scipy.linalg import orthogonal_procrustes

from ptmbench import models
from ptmbench.bench.adapt import heads, loop, settings
from ptmbench.bench.adapt.adapted import Adapted
from ptmbench.bench.adapt.course import Bookmark
from ptmbench.bench.adapt.mapping import Own
from ptmbench.bench.adapt.mapping import head as words
from ptmbench.bench.adapt.mapping import network as mapping
from ptmbench.bench.adapt.settings import SettingError, recorded
from ptmbench.bench.engine import networks
from ptmbench.bench.errors import NotApplicable
from ptmbench.bench.runs import cell as cells
from ptmbench.bench.runs.answers import Context
from ptmbench.bench.runs.plan import Cell, Row
from ptmbench.leaderboard.records import record
from ptmbench.models.card import Size
from ptmbench.models.pretrainable import Encoding
from ptmbench.models.text.tokenizers import Tokenizer
from ptmbench.tasks import load
from ptmbench.tasks.forms import Form, Target
from ptmbench.tasks.task import Example

PAIRS = {"lobok": "wolf", "lobokik": "wolves", "miral": "tower", "tesen": "song", "vadur": "good", "gopit": "old"}
TOKENIZER = Tokenizer.train("wordpiece", [" ".join((*PAIRS, *PAIRS.values()))] * 5, 45)
SHAPE = Size(layers=2, width=8, heads=2, inner=16, length=16)


def examples(*source_words):
    candidates = {word: word for word in PAIRS.values()}
    return [Example(id=w, inputs=(w,), gold=Target(PAIRS[w], candidates, {PAIRS[w]}, kind=w)) for w in source_words]


TRAIN, TEST = examples("lobok", "miral", "tesen", "vadur"), examples("gopit", "lobokik")


def codec(**changes):
    return words.Codec(load("word_translation"), TOKENIZER, Own(**changes), TRAIN)


def decode(tokens):
    return "".join(TOKENIZER.pieces(np.array(tokens))).replace("##", "")


def test_rows_mark_the_tokens_of_a_word_with_its_language():
    made = codec()
    first = made.training_rows(TRAIN)[0].arrays
    assert [decode(t[i == side]) for t, i, side in zip(first["tokens"], first["inside"], (2, 1), strict=True)] == [
        "lobok", "wolf",
    ]  # fmt: skip
    assert (first["inside"] > 0).sum() == (first["tokens"] > 0).sum() - 4  # [CLS] and [SEP], twice
    rows = made.rows(TEST)
    assert [row.note for row in rows] == ["lobok", "miral", "tesen", "vadur", "gopit", "lobokik"] + [None] * 6
    shown = [decode(row.arrays["tokens"][row.arrays["inside"] > 0]) for row in rows]
    assert shown == ["lobok", "miral", "tesen", "vadur", "gopit", "lobokik", *PAIRS.values()]
    assert [int(row.arrays["inside"].max()) for row in rows] == [2] * 6 + [1] * 6


def test_candidates_with_the_same_text_have_a_row_each():
    candidates = {"bank.1": "good", "bank.2": "good", "old": "old"}
    asked = [Example(id="w", inputs=("gopit",), gold=Target("old", candidates, {"old"}, kind="w"))]
    made = codec(csls=0)
    rows = made.rows(asked)
    assert [decode(row.arrays["tokens"][row.arrays["inside"] == 1]) for row in rows[5:]] == ["good", "good", "old"]
    vectors = [np.eye(3)[[0 if row.note else 1]] for row in rows[:-1]] + [np.eye(3)[[0]]]
    assert [one.best for one in made.predictions(asked, rows, vectors)] == ["old"]


def test_csls_equals_its_equation():
    cosines = np.random.default_rng(0).uniform(-1, 1, (7, 5))
    for k in (1, 3, 10):
        actual = words.csls(cosines, k)
        for i, j in np.ndindex(7, 5):
            of_question = np.mean(sorted(cosines[i], reverse=True)[:k])
            of_answer = np.mean(sorted(cosines[:, j], reverse=True)[:k])
            assert actual[i, j] == pytest.approx(2 * cosines[i, j] - of_question - of_answer)


def test_csls_demotes_hub_words():
    """By hand: "good" is nearest to every question, but its mean cosine is 0.9. k = 6 includes all questions."""
    made = codec(csls=0), codec(csls=1, neighbours=6)
    rows = made[0].rows(TEST)
    right = {name: place for place, name in enumerate(PAIRS.values())}
    cosines = np.full((6, 6), 0.1)
    for i, source_words in enumerate([*[e.inputs[0] for e in TRAIN], "gopit", "lobokik"]):
        cosines[i, right[PAIRS[source_words]]] = 0.8
    cosines[:, right["good"]] = 0.9
    outputs = [*(row[None] for row in cosines), *np.eye(6)[:, None]]  # so that the dot products equal the cosines
    plain, corrected = (one.predictions(TEST, rows, outputs) for one in made)
    assert plain == [2, 2] and [guess.best for guess in plain] == ["good", "good"]
    assert corrected == [1, 1] and [guess.best for guess in corrected] == ["old", "wolves"]


@pytest.mark.parametrize("batches", [1, 4])
def test_the_map_solves_orthogonal_procrustes(batches):
    """Equals SciPy's solution for any split into batches. The prior adds D pairs of each axis with itself."""
    rng = np.random.default_rng(1)
    x, y = (v / np.linalg.norm(v, axis=1, keepdims=True) for v in rng.normal(size=(2, 12, 6)))

    def loss(batch, seed):
        return {"loss": -tf.reduce_sum(tf.matmul(batch["x"], made.variables[0].value) * batch["y"])}

    made = mapping.Step(loss, [keras.Variable(np.zeros((6, 6), np.float32))], dynamic=True)
    made.reset()
    assert np.array_equal(made.variables[0].numpy(), np.eye(6))
    for part in np.array_split(np.arange(12), batches):
        made({"x": np.float32(x[part]), "y": np.float32(y[part])}, (0, 0), 1.0)
    prior = np.sqrt(mapping.PRIOR) * np.eye(6)
    expected, _ = orthogonal_procrustes(np.concatenate([x, prior]), np.concatenate([y, prior]))
    actual = made.variables[0].numpy()
    assert np.allclose(actual, expected, atol=1e-4) and np.allclose(actual @ actual.T, np.eye(6), atol=1e-5)
    made({"x": np.float32(x), "y": np.float32(y)}, (0, 0), 0.0)
    assert np.allclose(made.variables[0].numpy(), np.eye(6))


@pytest.mark.parametrize(("layers", "read"), [("embedding", slice(1)), ("top", slice(-1, None)), ("all", slice(None))])
def test_word_vectors_are_token_means_and_only_questions_are_mapped(layers, read):
    rng = np.random.default_rng(2)
    layer_outputs = [rng.normal(size=(4, 5, 8)).astype(np.float32) for _ in range(3)]
    inside = np.array([[[0, 2, 2, 0, 0], [0, 1, 0, 0, 0]], [[0, 2, 0, 0, 0], [0, 1, 1, 1, 0]]], np.int32)
    reading = mapping.Reading(type("Encoder", (), {"width": 8}), Own(layers=layers))
    rotation, _ = np.linalg.qr(rng.normal(size=(8, 8)))
    reading.map.assign(rotation)
    encoding = Encoding(
        tokens=layer_outputs[-1], pooled=layer_outputs[-1][:, 0], layers=tuple(map(tf.constant, layer_outputs))
    )
    actual = reading(encoding, {"inside": tf.constant(inside)}).pooled.numpy()
    for i, (marks, layer) in enumerate(zip(inside.reshape(4, 5), np.stack(layer_outputs[read], axis=1), strict=True)):
        mean = layer[:, marks > 0].mean(axis=(0, 1))
        mean /= np.linalg.norm(mean)
        assert np.allclose(actual[i], mean @ rotation if i % 2 == 0 else mean, atol=1e-5)


def test_the_map_recovers_a_rotation():
    """The vectors of one language are those of the other, rotated. Every word is found with the map, not without."""
    word_tokenizer = Tokenizer.train("word", [" ".join((*PAIRS, *PAIRS.values()))] * 3, 60)
    network = models.load("word2vec").build(SHAPE, word_tokenizer.vocabulary)
    initial = networks.weights(network.loss.variables)
    (table,) = (name for name in initial if name.startswith("encoder/"))
    rotation, _ = np.linalg.qr(np.random.default_rng(3).normal(size=(8, 8)))
    for mowari, english in PAIRS.items():
        (one,), (other,) = (word_tokenizer.encode_words([[word]])[0][0] for word in (mowari, english))
        initial[table][one] = initial[table][other] @ rotation
    all_examples = examples(*PAIRS)
    actual = {}
    for mapped in (0, 1):
        chosen = Own(mapped=mapped, batch=4, csls=0)
        made = words.Codec(load("word_translation"), word_tokenizer, chosen, all_examples)
        adapted = Adapted(network, word_tokenizer.vocabulary, Form.RANKING, "mapping", 1, chosen, lambda rows: 0.0)
        adapted.reset(initial, 0)
        rows = made.rows(all_examples)
        loop.train(adapted, made.training_rows(all_examples), chosen, 0, lambda: 0.0)
        actual[mapped] = made.predictions(all_examples, rows, loop.outputs(adapted, rows))
        after = networks.weights(network.loss.variables)
        assert all(np.array_equal(after[name], value) for name, value in initial.items())
    assert actual[1] == [1] * 6 and actual[0] != actual[1]


def test_a_resumed_map_includes_the_pairs_seen_before_the_stop(tmp_path):
    network = models.load("word2vec").build(SHAPE, TOKENIZER.vocabulary)
    initial, chosen = networks.weights(network.loss.variables), Own(batch=2)
    all_examples = examples(*PAIRS)
    rows = words.Codec(load("word_translation"), TOKENIZER, chosen, all_examples).training_rows(all_examples)

    def train_map(bookmark=None, stop=None):
        adapted = Adapted(network, TOKENIZER.vocabulary, Form.RANKING, "mapping", 1, chosen, lambda rows: 0.0)
        adapted.reset(initial, 0)
        adapted.make = lambda rows, settings, seed: (rows if seed[1] != stop else 1 / 0, 0.0)
        loop.train(adapted, rows, chosen, 0, lambda: 0.0, bookmark)
        return adapted.reading.map.numpy()

    with pytest.raises(ZeroDivisionError):
        train_map(Bookmark(tmp_path, -1.0), stop=2)  # after four of six pairs
    assert np.array_equal(train_map(Bookmark(tmp_path, -1.0, lambda line: None)), train_map())


def test_mapping_is_for_ranking_tasks_and_trains_for_one_epoch():
    with pytest.raises(NotApplicable, match="for ranking tasks"):
        heads.of(Form.CLASSIFICATION, "mapping")
    with pytest.raises(SettingError, match="one pass"):
        settings.changed(settings.defaults(Form.RANKING, "mapping"), {"epochs": 2})
    chosen = settings.defaults(Form.RANKING, "mapping")
    assert (chosen.batch, chosen.layers, chosen.mapped, chosen.csls) == (1024, "embedding", 1, 1)
    assert settings.baked(settings.changed(chosen, {"mapped": 0, "csls": 0})) == settings.baked(chosen)


def test_a_cell_produces_a_record(tmp_path):
    (tmp_path / "data/muse").mkdir(parents=True)
    for part in ("0-5000", "5000-6500"):
        text = "".join(f"{one} {other}\n" for one, other in PAIRS.items())
        (tmp_path / f"data/muse/mw-en.{part}.txt").write_text(text)
    cell = Cell(
        row=Row(name="random-bert", kind="random", model="bert", size="tiny"), task="word_translation-mw-en",
        task_version=1, form=Form.RANKING, data_sha256="x", adaptation="mapping",
        settings=recorded(settings.defaults(Form.RANKING, "mapping")), seed=0, tokenizer="x",
    )  # fmt: skip
    context = Context(data=tmp_path / "data", out=tmp_path, shape=SHAPE, tokenizer=TOKENIZER, source={"name": "x"})
    result = cells.run(cell, context)
    assert result.status == "ok", result.reason
    actual = record.read(record.write(context.out, result))
    assert actual.task["examples"] == 6 and actual.cost["steps"] == 1 and actual.cost["flops"] == 0
    one, five = (actual.scores[f"p_at_{k}"]["value"] for k in (1, 5))
    assert one == actual.headline["value"] and 0 <= one <= five <= 100
