"""The pointing head: encoding of tuples, constrained decoding, loss and learning."""

import json
from dataclasses import replace

import numpy as np
import pytest

from ptmbench.bench import environment
from ptmbench.bench.adapt import settings as adaptation_settings
from ptmbench.bench.adapt.heads import pointing, stack
from ptmbench.bench.adapt.settings import Settings
from ptmbench.bench.runs import cell as cells
from ptmbench.bench.runs.plan import Cell, Row
from ptmbench.bench.scoring import rescore
from ptmbench.models.card import Size
from ptmbench.models.pretrainable import Encoding
from ptmbench.models.text.tokenizers import Tokenizer
from ptmbench.tasks import load
from ptmbench.tasks.forms import Pointings
from ptmbench.tasks.task import Example

TEXT = "the old miller lives near the river and Vodia sees the café"
TOKENIZER = Tokenizer.train("wordpiece", [TEXT] * 4, 300)
WORDS = tuple(TEXT.split())
TUPLES = {
    "absa-ae-14lap": ([(0, 2), (8, 8)], ()),
    "absa-alsc-14lap": ([("NEG",)], (1, 2)),
    "absa-aoe-14lap": ([(3, 3), (10, 11)], (1, 2)),
    "absa-aesc-14lap": ([(1, 2, "POS"), (8, 8, "NEU")], ()),
    "absa-pair-14lap": ([(1, 2, 3, 3), (8, 8, 11, 11)], ()),
    "absa": ([(1, 2, 3, 3, "NEG"), (8, 8, 0, 11, "POS")], ()),
}


def codec(name, **changes):
    return pointing.Codec(load(name), TOKENIZER, Settings(**changes), [])


def examples(name):
    tuples, given = TUPLES[name]
    return [
        Example(id="0", inputs=WORDS, gold=Pointings(tuples, given=given)),
        Example(id="1", inputs=WORDS[:4], gold=Pointings(tuples[:1] if "alsc" in name else (), given=given)),
        Example(id="2", inputs=WORDS[:9], gold=Pointings(tuples[:1], given=given)),
    ]


def gold_choices(row):
    """The choices of a decoder that predicts the gold tuples."""
    return np.maximum(row.arrays["chosen"], 0)


@pytest.mark.parametrize("name", TUPLES)
def test_tuples_round_trip_through_choices(name):
    made, sentences = codec(name), examples(name)
    rows = made.rows(sentences)
    found = made.predictions(sentences, rows, [gold_choices(row) for row in rows])
    assert found == [list(example.gold) for example in sentences]
    padded = made.predictions(sentences, rows, list(stack(rows)["slots"] * 0))
    assert padded == [[]] * 3


def test_tuples_with_truncated_words_are_not_trained_on_or_predicted():
    sentences = examples("absa")[:1]
    (row,) = codec("absa", length=10).rows(sentences)
    words_in_reach = len(row.arrays["places"])
    assert 3 < words_in_reach <= 8 and len(row.arrays["tokens"]) <= 10
    made = codec("absa", length=10)
    assert made.predictions(sentences, [row], [gold_choices(row)]) == [[(1, 2, 3, 3, "NEG")]]
    truncated = [Example(id="0", inputs=WORDS, gold=Pointings([("POS",)], given=(8, 8)))]
    (row,) = codec("absa-alsc-14lap", length=10).rows(truncated)
    assert not row.arrays["slots"].any() and codec("absa-alsc-14lap").predictions(
        truncated, [row], [gold_choices(row)]
    ) == [[]]


def fake_encoding(rows, width=24):
    """A fake encoder: the vector of a token depends only on the token and its position."""
    import tensorflow as tf

    batch = {name: tf.convert_to_tensor(value) for name, value in stack(rows).items()}
    table = np.random.default_rng(1).normal(size=(300, width)).astype(np.float32)
    places = np.random.default_rng(2).normal(size=(64, width)).astype(np.float32)
    vectors = table[batch["tokens"]] + places[: batch["tokens"].shape[1]]
    real = (batch["tokens"].numpy() != 0)[..., None]
    return Encoding(tf.constant(vectors), tf.constant((vectors * real).sum(1) / real.sum(1)), ()), batch


def check_pattern(numbers, slots, labels, words, first):
    """Checks choice by choice that ``numbers`` follow the pattern of ``slots``."""
    ended, previous = False, 0
    for number, slot in zip(numbers, slots, strict=True):
        word = first <= number < first + words
        if ended or slot == pointing.NOTHING:
            assert number == pointing.END
        elif slot == pointing.OPEN:
            assert word or number == pointing.END
        elif slot == pointing.FIRST:
            assert word
        elif slot == pointing.LAST:
            assert word and number >= previous
        elif slot == pointing.CLASS:
            assert 1 <= number <= labels
        elif slot == pointing.OPEN_CLASS:
            assert 0 <= number <= labels
        ended, previous = ended or (number == pointing.END and slot != pointing.GIVEN), number


@pytest.mark.parametrize("name", ["absa", "absa-aoe-14lap", "absa-alsc-14lap"])
def test_predictions_follow_the_pattern_for_any_weights_and_batch(name):
    made, sentences = codec(name), examples(name)
    rows = made.rows(sentences)
    head = pointing.Head(made.outputs)
    rng = np.random.default_rng(3)
    for _ in range(3):
        reading, batch = fake_encoding(rows)
        numbers = head(reading, batch)
        for weight in head.trainable_variables:
            weight.assign(rng.normal(size=weight.shape) * 0.7)
        numbers = head(reading, batch)
        all_choices = head.predicted(numbers, batch).numpy()
        for row, line in zip(rows, all_choices, strict=True):
            slots = row.arrays["slots"]
            check_pattern(line[: len(slots)], slots, len(made.labels), len(row.arrays["places"]), made.outputs)
            given = row.note
            assert line[:given].tolist() == row.arrays["chosen"][:given].tolist()
        for order in ([2], [1, 0]):
            reading, batch = fake_encoding([rows[i] for i in order])
            other = head.predicted(head(reading, batch), batch).numpy()
            for place, i in enumerate(order):
                size = min(other.shape[1], all_choices.shape[1])
                assert other[place, :size].tolist() == all_choices[i, :size].tolist()


def test_tuples_that_begin_with_a_class_can_end_before_the_maximum():
    task = replace(load("absa"), extra={"pattern": ("class", "span")})
    made = pointing.Codec(task, TOKENIZER, Settings(), [])
    golds = ([("NEG", 1, 2), ("POS", 8, 8)], [("NEU", 3, 3)], [])
    sentences = [Example(id=str(i), inputs=WORDS, gold=Pointings(gold)) for i, gold in enumerate(golds)]
    rows = made.rows(sentences)
    assert made.most > 2
    assert made.predictions(sentences, rows, [gold_choices(row) for row in rows]) == [list(gold) for gold in golds]
    head = pointing.Head(made.outputs)
    reading, batch = fake_encoding(rows)
    numbers = head(reading, batch)
    assert float(head.loss(numbers, batch)) < 100  # a forbidden choice costs 1e9 nats
    for row, line in zip(rows, head.predicted(numbers, batch).numpy(), strict=True):
        slots = row.arrays["slots"]
        check_pattern(line[: len(slots)], slots, len(made.labels), len(row.arrays["places"]), made.outputs)


def test_the_loss_is_the_mean_negative_log_likelihood_of_the_choices():
    """By hand where all logits are equal."""
    made, sentences = codec("absa"), examples("absa")
    rows = made.rows(sentences)
    head = pointing.Head(made.outputs)
    reading, batch = fake_encoding(rows)
    numbers = head(reading, batch)
    parameters = head.own
    for name in ("query", "classes"):
        parameters[name].assign(parameters[name] * 0.0)
    # All allowed choices are equally likely: the loss of a known choice is ln of their number.
    count = []
    for row in rows:
        words = len(row.arrays["places"])
        previous = 0
        for number, slot in zip(row.arrays["chosen"], row.arrays["slots"], strict=True):
            if number < 0:
                break
            remaining = words - (previous - made.outputs)
            count.append({2: words + 1, 3: words, 4: remaining, 5: 3}[int(slot)])
            previous = int(number)
    assert float(head.loss(numbers, batch)) == pytest.approx(np.log(count).mean(), abs=1e-5)


def test_the_head_learns_the_tuples_of_a_few_sentences():
    import keras
    import tensorflow as tf

    keras.utils.set_random_seed(0)
    made, sentences = codec("absa", target_length=15), examples("absa")
    rows = made.rows(sentences)
    head = pointing.Head(made.outputs)
    reading, batch = fake_encoding(rows)
    head(reading, batch)
    for weight in head.trainable_variables:  # as in `Adapted.reset`
        weight.assign(np.random.default_rng(0).normal(0, 0.02, weight.shape) if len(weight.shape) > 1 else weight)
    optimizer = keras.optimizers.Adam(3e-3)
    optimizer.build(head.trainable_variables)

    @tf.function(autograph=False)
    def step():
        with tf.GradientTape() as tape:
            loss = head.loss(head(reading, batch), batch)
        optimizer.apply(tape.gradient(loss, [v.value for v in head.trainable_variables]), head.trainable_variables)
        return loss

    losses = [float(step()) for _ in range(150)]
    assert losses[-1] < 0.05 < 0.5 < losses[0]
    choices = head.predicted(head(reading, batch), batch).numpy()
    assert made.predictions(sentences, rows, list(choices)) == [list(example.gold) for example in sentences]


@pytest.mark.slow
@pytest.mark.parametrize("model, adaptation", [("bert", "finetune"), ("bart", "features")])
def test_a_cell_reads_official_files_and_produces_a_record(tmp_path, model, adaptation):
    """A cell on made-up reviews. Aspects are "the X", and the opinion is the last word."""
    rng = np.random.default_rng(0)
    folder = tmp_path / "data/absa/pengb/14lap"
    folder.mkdir(parents=True)
    polarities = {"fine": "POS", "awful": "NEG", "usual": "NEU"}
    for split, count in (("train", 96), ("dev", 12), ("test", 16)):
        entries = []
        for _ in range(count):
            noun, opinion = str(rng.choice(["miller", "river", "café"])), str(rng.choice(list(polarities)))
            words = [*["near"] * int(rng.integers(0, 3)), "the", noun, "is", opinion]
            first = words.index("the")
            entries.append({
                "raw_words": " ".join(words), "words": words,
                "aspects": [{"index": 0, "from": first, "to": first + 2, "term": ["the", noun],
                             "polarity": polarities[opinion]}],
                "opinions": [{"index": 0, "from": len(words) - 1, "to": len(words), "term": [opinion]}],
            })  # fmt: skip
        (folder / f"{split}_convert.json").write_text(json.dumps(entries))
    environment.prepare()
    tokenizer = Tokenizer.train("wordpiece", ["near the miller is fine the river is awful the café is usual"] * 4, 200)
    task = load("absa")
    settings = adaptation_settings.changed(
        adaptation_settings.defaults(task.form, adaptation),
        {"epochs": 12, "length": 16, "target_length": 10, "learning_rate": 3e-3, "dropout": 0, "patience": 12}
        | {"batch": 16},
    )
    cell = Cell(
        row=Row(name=f"random-{model}", kind="random", model=model, size="tiny"), task=task.name,
        task_version=task.version, form=task.form, data_sha256="x", adaptation=adaptation,
        settings=adaptation_settings.recorded(settings), seed=0, tokenizer="x",
    )  # fmt: skip
    shape = Size(layers=1, width=32, heads=2, inner=64, length=48)
    context = cells.Context(
        data=tmp_path / "data", out=tmp_path, shape=shape, tokenizer=tokenizer, source={"name": "by hand"}
    )
    result = cells.run(cell, context)
    assert result.status == "ok", result.reason
    assert result.headline["value"] > 60 and result.headline["high"] <= 100
    assert rescore.scored(result, [tmp_path]).value == pytest.approx(result.headline["value"])
