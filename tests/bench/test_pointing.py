"""The pointing head: tuples come back from their choices, only legal ones are written, and they can be learnt."""

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


def numbers_of(row):
    """What a decoder that knows the answer would write."""
    return np.maximum(row.arrays["chosen"], 0)


@pytest.mark.parametrize("name", TUPLES)
def test_tuples_come_back_from_their_choices(name):
    made, asked = codec(name), examples(name)
    rows = made.rows(asked)
    found = made.predictions(asked, rows, [numbers_of(row) for row in rows])
    assert found == [list(example.gold) for example in asked]
    padded = made.predictions(asked, rows, list(stack(rows)["slots"] * 0))
    assert padded == [[]] * 3


def test_words_out_of_reach_are_not_learnt_and_nothing_is_said_of_them():
    asked = examples("absa")[:1]
    (row,) = codec("absa", length=10).rows(asked)
    reach = len(row.arrays["places"])
    assert 3 < reach <= 8 and len(row.arrays["tokens"]) <= 10
    made = codec("absa", length=10)
    assert made.predictions(asked, [row], [numbers_of(row)]) == [[(1, 2, 3, 3, "NEG")]]
    beyond = [Example(id="0", inputs=WORDS, gold=Pointings([("POS",)], given=(8, 8)))]
    (row,) = codec("absa-alsc-14lap", length=10).rows(beyond)
    assert not row.arrays["slots"].any() and codec("absa-alsc-14lap").predictions(beyond, [row], [numbers_of(row)]) == [
        []
    ]


def encoded(rows, width=24):
    """A stand-in for an encoder: each token's vector follows from the token and its place alone."""
    import tensorflow as tf

    batch = {name: tf.convert_to_tensor(value) for name, value in stack(rows).items()}
    table = np.random.default_rng(1).normal(size=(300, width)).astype(np.float32)
    places = np.random.default_rng(2).normal(size=(64, width)).astype(np.float32)
    vectors = table[batch["tokens"]] + places[: batch["tokens"].shape[1]]
    real = (batch["tokens"].numpy() != 0)[..., None]
    return Encoding(tf.constant(vectors), tf.constant((vectors * real).sum(1) / real.sum(1)), ()), batch


def legal(numbers, slots, labels, words, first):
    """By brute force: what keeps to the pattern."""
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
def test_only_what_is_legal_is_written_whatever_the_weights_and_the_batch(name):
    made, asked = codec(name), examples(name)
    rows = made.rows(asked)
    head = pointing.Head(made.outputs)
    rng = np.random.default_rng(3)
    for _ in range(3):
        reading, batch = encoded(rows)
        numbers = head(reading, batch)
        for weight in head.trainable_variables:
            weight.assign(rng.normal(size=weight.shape) * 0.7)
        numbers = head(reading, batch)
        whole = head.predicted(numbers, batch).numpy()
        for row, line in zip(rows, whole, strict=True):
            slots = row.arrays["slots"]
            legal(line[: len(slots)], slots, len(made.labels), len(row.arrays["places"]), made.outputs)
            given = row.note
            assert line[:given].tolist() == row.arrays["chosen"][:given].tolist()
        for order in ([2], [1, 0]):
            reading, batch = encoded([rows[i] for i in order])
            other = head.predicted(head(reading, batch), batch).numpy()
            for place, i in enumerate(order):
                size = min(other.shape[1], whole.shape[1])
                assert other[place, :size].tolist() == whole[i, :size].tolist()


def test_tuples_that_begin_with_a_class_can_end_before_the_last_possible_one():
    task = replace(load("absa"), extra={"pattern": ("class", "span")})
    made = pointing.Codec(task, TOKENIZER, Settings(), [])
    golds = ([("NEG", 1, 2), ("POS", 8, 8)], [("NEU", 3, 3)], [])
    asked = [Example(id=str(i), inputs=WORDS, gold=Pointings(gold)) for i, gold in enumerate(golds)]
    rows = made.rows(asked)
    assert made.most > 2
    assert made.predictions(asked, rows, [numbers_of(row) for row in rows]) == [list(gold) for gold in golds]
    head = pointing.Head(made.outputs)
    reading, batch = encoded(rows)
    numbers = head(reading, batch)
    assert float(head.loss(numbers, batch)) < 100  # a choice that is not allowed costs 1e9 nats
    for row, line in zip(rows, head.predicted(numbers, batch).numpy(), strict=True):
        slots = row.arrays["slots"]
        legal(line[: len(slots)], slots, len(made.labels), len(row.arrays["places"]), made.outputs)


def test_the_loss_is_that_of_the_choices_one_by_one():
    """Against the decoder's own greedy path: choices that are written are likelier than any other, so the loss of the
    path is below that of the same path with one choice changed; and by hand where all logits are equal."""
    made, asked = codec("absa"), examples("absa")
    rows = made.rows(asked)
    head = pointing.Head(made.outputs)
    reading, batch = encoded(rows)
    numbers = head(reading, batch)
    own = head.own
    for name in ("query", "classes"):
        own[name].assign(own[name] * 0.0)
    # Every legal choice is as likely as another: ln of how many there are, at each of the places that are known.
    count = []
    for row in rows:
        words = len(row.arrays["places"])
        previous = 0
        for number, slot in zip(row.arrays["chosen"], row.arrays["slots"], strict=True):
            if number < 0:
                break
            left = words - (previous - made.outputs)
            count.append({2: words + 1, 3: words, 4: left, 5: 3}[int(slot)])
            previous = int(number)
    assert float(head.loss(numbers, batch)) == pytest.approx(np.log(count).mean(), abs=1e-5)


def test_it_learns_the_tuples_of_a_few_sentences():
    import keras
    import tensorflow as tf

    keras.utils.set_random_seed(0)
    made, asked = codec("absa", target_length=15), examples("absa")
    rows = made.rows(asked)
    head = pointing.Head(made.outputs)
    reading, batch = encoded(rows)
    head(reading, batch)
    for weight in head.trainable_variables:  # as `Adapted.reset` begins
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
    written = head.predicted(head(reading, batch), batch).numpy()
    assert made.predictions(asked, rows, list(written)) == [list(example.gold) for example in asked]


@pytest.mark.slow
@pytest.mark.parametrize("model, adaptation", [("bert", "finetune"), ("bart", "features")])
def test_from_official_files_to_a_record(tmp_path, model, adaptation):
    """A cell on made-up reviews whose aspects are "the X" and whose opinions end them."""
    rng = np.random.default_rng(0)
    folder = tmp_path / "data/absa/pengb/14lap"
    folder.mkdir(parents=True)
    said = {"fine": "POS", "awful": "NEG", "usual": "NEU"}
    for split, count in (("train", 96), ("dev", 12), ("test", 16)):
        entries = []
        for _ in range(count):
            noun, opinion = str(rng.choice(["miller", "river", "café"])), str(rng.choice(list(said)))
            words = [*["near"] * int(rng.integers(0, 3)), "the", noun, "is", opinion]
            first = words.index("the")
            entries.append({
                "raw_words": " ".join(words), "words": words,
                "aspects": [{"index": 0, "from": first, "to": first + 2, "term": ["the", noun],
                             "polarity": said[opinion]}],
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
