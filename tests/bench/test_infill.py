"""Mask and infill: rows, losses and blanks by hand, and toy reviews whose labels it learns to exchange."""

from types import SimpleNamespace

import numpy as np
import pytest
import tensorflow as tf

from ptmbench.bench import baselines
from ptmbench.bench.adapt import settings
from ptmbench.bench.adapt.heads import stack
from ptmbench.bench.adapt.infill import Own
from ptmbench.bench.adapt.infill import head as infilling
from ptmbench.bench.adapt.infill import network as infill
from ptmbench.bench.errors import NotApplicable
from ptmbench.bench.runs import cell as cells
from ptmbench.bench.runs.answers import Context
from ptmbench.bench.runs.plan import Cell, Row
from ptmbench.models import load as model
from ptmbench.models.card import Size
from ptmbench.models.text.tokenizers import Tokenizer, Vocabulary
from ptmbench.tasks import load
from ptmbench.tasks.forms import Form
from ptmbench.tasks.task import Example

WORDS = Vocabulary(size=60)
SMALL = Size(layers=1, width=16, heads=2, inner=24, length=24)
TASK = load("sentiment_transfer")
TEXTS = {"1": ["the soup was awful", "awful slow service"], "0": ["the soup was lovely", "lovely quick service"]}
TRAIN = [Example(id="0", inputs=(text, wanted)) for wanted, texts in TEXTS.items() for text in texts * 9]
TOKENIZER = Tokenizer.train("wordpiece", [e.inputs[0] for e in TRAIN] + ["the soup was un ##"] * 3, 120)


def codec(**changes):
    return infilling.Codec(TASK, TOKENIZER, Own(**changes), TRAIN)


def test_words_that_express_the_label_become_blanks():
    """The words "awful" and "lovely" occur 18 times in the 18 texts of their label. Their salience is 19 to 1, above
    the 15 of the task."""
    vocabulary, made = TOKENIZER.vocabulary, codec()
    examples = [
        Example(id="0", inputs=("the  awful soup was awful", "1")),
        Example(id="1", inputs=("lovely soup", "0")),
    ]
    rows = made.rows(examples)
    (the, awful, soup, was), lovely = TOKENIZER.encode(["the awful soup was"])[0], TOKENIZER.encode(["lovely"])[0][0]
    expected = [vocabulary.cls, the, awful, soup, was, awful, vocabulary.sep]
    assert rows[0].arrays["tokens"].tolist() == expected
    assert rows[0].arrays["places"].tolist() == [2, 5] and rows[0].arrays["targets"].tolist() == [awful, awful]
    assert [int(row.arrays["label"]) for row in rows] == [0, 1]  # the labels of the texts, not the wanted ones
    written = made.predictions(examples, rows, [np.array([lovely, soup, 0]), np.array([awful, 0, 0])])
    assert written == ["the lovely soup was soup", "awful soup"]
    (short,) = codec(length=5).rows(examples[:1])  # of the two words to blank, the second is truncated
    assert short.arrays["tokens"].tolist() == [*expected[:4], vocabulary.sep]
    assert made.predictions(examples[:1], [short], [np.array([lovely])]) == ["the lovely soup was awful"]
    (empty,) = made.rows([Example(id="2", inputs=("", "1"))])
    assert made.predictions([], [empty], [np.zeros(0, np.int32)]) == [""]
    assert stack([*rows, empty])["places"].tolist() == [[2, 5, -1, -1], [1, -1, -1, -1], [-1, -1, -1, -1]]


def test_the_salience_threshold_is_a_setting():
    """The salience is 19 to 1 for "awful" and 10 to 1 for "slow", which occurs in 9 texts."""
    for text, threshold, count in (
        ("soup service awful", 30.0, 1),  # no word reaches it, so the most salient one is chosen
        ("slow awful soup", 10.5, 1),
        ("slow awful soup", 9.5, 2),
    ):
        (row,) = codec(salience=threshold).rows([Example(id="0", inputs=(text, "1"))])
        assert len(row.arrays["places"]) == count


class FakeModel:
    """A network whose best piece reveals its inputs: 37 + (the sum of the tokens shown + 7 times the label + the place)
    modulo 23."""

    encoder = SimpleNamespace(causal=False)

    def fill(self, batch):
        at = tf.cast(tf.gather(batch["segments"], batch["places"], batch_dims=1), tf.int32)
        best = 37 + (tf.reduce_sum(batch["tokens"], axis=1) + 7 * at + batch["places"]) % 23
        return tf.one_hot(best, 60) + 5.0 * tf.one_hot(tf.zeros_like(best), 60)  # special tokens must not be generated


def test_blanks_are_filled_from_the_left_and_see_the_earlier_pieces():
    made = infill.Decoding(FakeModel(), WORDS, Own())
    batch = {
        "tokens": np.array([[2, 40, 41, 42, 3], [2, 50, 3, 0, 0]], np.int32),
        "places": np.array([[1, 3, -1], [1, -1, -1]], np.int32),
        "label": np.array([0, 1], np.int32),
        "targets": np.array([[40, 42, 0], [50, 0, 0]], np.int32),
    }
    before = {name: array.copy() for name, array in batch.items()}
    first = 37 + (2 + 4 + 41 + 4 + 3 + 7 + 1) % 23  # two blanks under the other label
    second = 37 + (2 + first + 41 + 4 + 3 + 7 + 3) % 23
    alone = 37 + (2 + 4 + 3 + 0 + 1) % 23
    assert made.written(batch).tolist() == [[first, second, 0], [alone, 0, 0]]
    assert all(np.array_equal(array, before[name]) for name, array in batch.items())
    # In training, the tokens on the left are those of the text, and the label is its own.
    scores = made.decode(batch).numpy()
    assert scores.shape == (2, 3, 60)
    found = scores[:, :, 37:].argmax(-1) + 37
    assert found[0, 0] == 37 + (2 + 4 + 41 + 4 + 3 + 1) % 23
    assert found[0, 1] == 37 + (2 + 40 + 41 + 4 + 3 + 3) % 23
    assert found[1, 0] == 37 + (2 + 4 + 3 + 7 + 1) % 23
    exact = -np.log(np.exp(scores[0, 0, 40]) / np.exp(scores[0, 0]).sum())
    exact -= np.log(np.exp(scores[0, 1, 42]) / np.exp(scores[0, 1]).sum())
    exact -= np.log(np.exp(scores[1, 0, 50]) / np.exp(scores[1, 0]).sum())
    assert float(infilling.Head(0).loss(scores, batch)) == pytest.approx(exact / 3, rel=1e-5)


def test_all_weights_of_the_language_model_learn_and_labels_are_segments():
    network = model("bert").build(SMALL, WORDS)
    network.encoder.dropout = 0.0
    made = infill.Decoding(network, WORDS, Own())
    batch = {
        "tokens": np.array([[2, 40, 41, 3]], np.int32),
        "places": np.array([[1, 2]], np.int32),
        "label": np.array([1]),
    }
    variables = [v for v in network.loss.trainable_variables if "mlm" in v.path or "encoder" in v.path]
    with tf.GradientTape() as tape:
        loss = tf.reduce_sum(made.decode(batch) ** 2)
    gradients = tape.gradient(loss, [v.value for v in variables])
    assert {v.path for v, g in zip(variables, gradients, strict=True) if g is None} <= {
        v.path for v in variables if "pool" in v.path
    }
    label = dict(batch, label=np.array([0]))
    assert np.abs(made.decode(batch).numpy() - made.decode(label).numpy()).max() > 1e-4
    described = model("bert").describe(SMALL, WORDS)
    assert made.decode_flops(described, 7, 3) == 3 * (described.encoder_flops(7) + 2 * 16 * 60)


@pytest.mark.parametrize(
    "name, code",
    [
        ("gpt", "no-label"),
        ("roberta", "no-label"),
        ("elmo", "no-label"),
        ("bart", "no-label"),
        ("pegasus", "fills-no-blanks"),
    ],
)
def test_models_without_segments_or_blanks_are_not_applicable(name, code):
    with pytest.raises(NotApplicable) as found:
        infill.Decoding(model(name).build(SMALL, WORDS), WORDS, Own())
    assert found.value.code == code and str(found.value).startswith("because ")


def test_tasks_without_labels_are_not_applicable_and_beam_is_refused():
    with pytest.raises(NotApplicable, match="because its texts have no label"):
        infilling.Codec(load("multi30k"), TOKENIZER, Own(), [])
    with pytest.raises(settings.SettingError, match="beam=4 is not valid"):
        settings.changed(settings.defaults(Form.GENERATION, "infill"), {"beam": 4})


def write_reviews(folder):
    """Writes reviews of things, each with its own words of praise and blame. Words of other things are wrong."""
    rng, things = np.random.default_rng(0), {
        "soup": ("tasty", "bland"), "cake": ("sweet", "stale"), "clerk": ("kind", "rude"), "nurse": ("calm", "cold"),
        "room": ("clean", "dirty"), "bed": ("soft", "hard"),
    }  # fmt: skip
    frames = ["the {} was {} today", "a {} so {} is rare", "my {} seemed {} to me"]
    folder.mkdir(parents=True)
    for split, count in (("train", 240), ("dev", 40), ("reference", 30)):
        for label in (0, 1):
            lines = []
            for _ in range(count):
                frame, thing = rng.choice(frames), rng.choice(list(things))
                texts = [frame.format(thing, things[thing][1 - kind]) for kind in (label, 1 - label)]
                lines.append("\t".join(texts) if split == "reference" else texts[0])
            name = "reference" if split == "reference" else f"sentiment.{split}"
            (folder / f"{name}.{label}").write_text("\n".join(lines) + "\n")


@pytest.mark.slow
def test_infilling_learns_to_exchange_a_label_and_keeps_the_rest(tmp_path):
    """Trains random weights on texts of both labels, without rewritten texts. References are the expected rewrites."""
    write_reviews(tmp_path / "sentiment_transfer/yelp")
    train, test = TASK.examples(tmp_path, "train"), TASK.examples(tmp_path, "test")
    tokenizer = Tokenizer.train("word", [e.inputs[0] for e in train], 100)
    shape = Size(layers=1, width=32, heads=2, inner=64, length=24)
    context = Context(data=tmp_path, out=tmp_path, shape=shape, tokenizer=tokenizer)
    chosen = settings.changed(
        settings.defaults(Form.GENERATION, "infill"),
        {"learning_rate": 5e-3, "epochs": 8, "length": 16, "salience": 25},
    )
    cell = Cell(
        row=Row(name="random-bert", kind="random", model="bert", size="tiny"),
        task=TASK.name,
        task_version=1,
        form=Form.GENERATION,
        data_sha256="x",
        adaptation="infill",
        settings=settings.recorded(chosen),
        seed=0,
        tokenizer="x",
    )
    result = cells.run(cell, context)
    assert result.status == "ok", result.reason
    assert result.cost["steps"] > 0 and result.cost["flops"] > 0 and result.cost["flops_evaluate"] > 0
    assert result.curve[-1]["loss"] < result.curve[0]["loss"]
    gold = [example.gold for example in test]
    floors = {name: TASK.score(gold, baselines.predict(name, TASK, train, test)) for name in ("copy", "delete")}
    assert floors["copy"]["accuracy"] == 0.0 and floors["copy"]["self_bleu"] == pytest.approx(100.0)
    found = {name: value["value"] for name, value in result.scores.items()}
    assert found["accuracy"] > 90 and found["accuracy"] > floors["delete"]["accuracy"] + 20, (found, floors)
    assert found["bleu"] > 75 and found["bleu"] > max(floor["bleu"] for floor in floors.values()) + 20, (found, floors)
