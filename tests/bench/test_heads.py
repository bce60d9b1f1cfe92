"""Codecs of several forms: from examples to arrays, and from outputs to predictions."""

import numpy as np
import pytest

from ptmbench.bench.adapt.heads import (
    choice,
    classes,
    classification,
    generation,
    layout,
    regression,
    span,
    stack,
    tagging,
)
from ptmbench.bench.adapt.settings import Settings, defaults
from ptmbench.models.text.tokenizers import Tokenizer
from ptmbench.tasks import load
from ptmbench.tasks.forms import Answer, Form
from ptmbench.tasks.task import Example

TEXTS = ["The old miller lives near the river .", "Who lives near the river ?", "Vodia sees Zürich , naïve café !"] * 4
TOKENIZER = Tokenizer.train("wordpiece", TEXTS, 200)
V = TOKENIZER.vocabulary


def codec(module, name, train=(), **changes):
    return module.Codec(load(name), TOKENIZER, Settings(**changes), list(train))


@pytest.mark.parametrize("length", [4, 7, 12, 64])
@pytest.mark.parametrize("texts", [[[7] * 20], [[7] * 20, [8] * 3], [[7] * 9, [8] * 9], [[], [8] * 30], [[7], []]])
def test_a_layout_fits_the_length_and_keeps_as_many_tokens_as_it_can(texts, length):
    arrays = layout(V, texts, length)
    tokens, segments = arrays["tokens"].tolist(), arrays["segments"].tolist()
    assert len(tokens) == len(segments) <= length
    assert tokens[0] == V.cls and tokens[-1] == V.sep and tokens.count(V.sep) == len(texts)
    room = length - 1 - len(texts)
    assert len(tokens) - 1 - len(texts) == min(room, sum(map(len, texts)))
    assert segments == sorted(segments) and max(segments) == len(texts) - 1


def test_the_shorter_text_of_a_pair_is_not_truncated():
    tokens = layout(V, [[7] * 50, [8] * 3], 20)["tokens"].tolist()
    assert tokens.count(8) == 3 and tokens.count(7) == 14


@pytest.mark.parametrize("sizes", [(100, 90), (90, 100), (60, 60), (100, 45), (70, 60), (300, 90), (63, 80), (5, 900)])
@pytest.mark.parametrize("room", [1, 50, 99, 125, 150])
def test_pairs_are_truncated_as_in_berts_code(sizes, room):
    """`_truncate_seq_pair` of BERT's code removes tokens of the longer text one by one."""
    one, other = [7] * sizes[0], [8] * sizes[1]
    tokens = layout(V, [one, other], room + 3)["tokens"].tolist()
    while len(one) + len(other) > room:
        (one if len(one) > len(other) else other).pop()
    assert (tokens.count(7), tokens.count(8)) == (len(one), len(other))


def test_stacking_pads_each_array_on_the_right_with_its_own_value():
    from ptmbench.bench.adapt.heads import InputRow

    rows = [
        InputRow({"tokens": np.arange(1, n + 1, dtype=np.int32), "tags": np.ones(n, np.int32), "label": np.int32(n)}, 0)
        for n in (3, 9)
    ]
    batch = stack(rows)
    assert batch["tokens"].shape == (2, 12) and batch["tokens"][0].tolist() == [1, 2, 3] + [0] * 9
    assert batch["tags"][0].tolist() == [1] * 3 + [-1] * 9
    assert batch["label"].tolist() == [3, 9]


def test_numbers_of_classes_are_rounded_up_to_powers_of_four():
    assert [classes(n) for n in (1, 2, 3, 4, 5, 9, 17)] == [4, 4, 4, 4, 16, 16, 64]


def test_classification_never_predicts_an_unused_class():
    made = codec(classification, "sst2")
    examples = [Example(id="0", inputs=("The miller",), gold="1"), Example(id="1", inputs=("river",))]
    rows = made.rows(examples)
    assert [int(row.arrays["label"]) for row in rows] == [1, -1]
    assert (rows[0].arrays["unused"] < -1e8).tolist() == [False, False, True, True]
    assert made.predictions(examples, rows, [np.array([0.1, 0.2, 9, 9]), np.array([3, 0.2, 9, 9])]) == ["1", "0"]


def logits_of(row):
    """The logits of a network that predicts the gold label."""
    return np.where(np.arange(len(row.arrays["unused"])) == row.arrays["label"], 9.0, 0.0) + row.arrays["unused"]


@pytest.mark.parametrize("way, count", [("", 1), ("-qa-m", 1), ("-nli-m", 1), ("-qa-b", 3), ("-nli-b", 3)])
def test_sentihood_has_a_row_for_each_question_that_its_wording_asks(way, count):
    made = codec(classification, f"sentihood{way}")
    examples = [
        Example(id=gold, inputs=("The miller lives near the river", f"location - {n} - price"), gold=gold)
        for n in (1, 2)
        for gold in ("None", "Positive", "Negative")
    ]
    rows = made.rows(examples)
    assert [row.example for row in rows] == [i for i in range(6) for _ in range(count)]
    assert all((row.arrays["unused"] == 0).sum() == len(row.note) for row in rows)
    assert all(row.arrays["unused"][row.arrays["label"]] == 0 for row in rows)
    found = made.predictions(examples, rows, [logits_of(row) for row in rows])
    assert found == [example.gold for example in examples]
    assert all(sum(guess.scores) == pytest.approx(1) and max(guess.scores) > 0.9 for guess in found)


def test_a_single_text_has_a_classifier_for_each_aspect():
    made = codec(classification, "sentihood")
    examples = [Example(id="0", inputs=("river", f"location - {n} - price")) for n in (1, 2)]
    one, two = made.rows(examples)
    assert (one.arrays["tokens"] == two.arrays["tokens"]).all() and not set(one.note) & set(two.note)
    logits = np.zeros(made.outputs)
    logits[one.note[1]] = logits[two.note[2]] = 5.0
    assert made.predictions(examples, [one, two], [logits, logits]) == ["Positive", "Negative"]


def test_regression_scores_are_standardised_and_clipped_to_the_training_range():
    train = [Example(id=str(i), inputs=("a", "b"), gold=g) for i, g in enumerate([0.0, 2.5, 5.0])]
    made = codec(regression, "stsb", train)
    rows = made.rows(train)
    outputs = [np.array([row.arrays["score"]]) for row in rows]
    assert made.predictions(train, rows, outputs) == pytest.approx([0.0, 2.5, 5.0], abs=1e-6)
    assert made.predictions(train[:1], rows[:1], [np.array([99.0])]) == [5.0]


def test_a_regression_without_training_examples_predicts_zero():
    made = codec(regression, "stsb")
    examples = [Example(id="0", inputs=("a", "b"), gold=2.5)]
    assert made.predictions(examples, made.rows(examples), [np.array([3.0])]) == [0.0]


def one_hot(tags, width=16):
    return np.eye(width)[np.maximum(tags, 0)]


@pytest.mark.parametrize("length", [6, 8, 128])
def test_tags_are_restored_however_often_a_sentence_is_split(length):
    words = TEXTS[2].split() + TEXTS[0].split()
    labels = load("conll2003").labels
    gold = tuple(labels[i % len(labels)] for i in range(len(words)))
    made = codec(tagging, "conll2003", length=length)
    examples = [Example(id="0", inputs=tuple(words), gold=gold), Example(id="1", inputs=("river",), gold=("O",))]
    rows = made.rows(examples)
    assert all(len(row.arrays["tokens"]) <= length for row in rows)
    outputs = [one_hot(row.arrays["tags"]) for row in rows]  # a network that predicts the gold tags
    assert made.predictions(examples, rows, outputs) == [list(gold), ["O"]]


@pytest.mark.parametrize("length, stride", [(64, 32), (16, 4), (24, 6)])
def test_spans_are_predicted_in_the_original_characters(length, stride):
    context = "Once , naïve  Vodia saw Zürich 's  café\nnear the old river , and the miller lives near it ."
    for answer in ("Vodia", "Zürich", "café\nnear", "naïve  Vodia"):
        example = Example(id="0", inputs=("Who ?", context), gold=(Answer(answer, context.index(answer)),))
        made = codec(span, "squad11", length=length, stride=stride)
        rows = made.rows([example])
        outputs = []
        for row in rows:
            scores = np.zeros((len(row.arrays["tokens"]), 2))
            scores[row.arrays["start"], 0] = scores[row.arrays["end"], 1] = 9.0
            outputs.append(scores)
        assert made.predictions([example], rows, outputs) == [answer]


def test_a_window_without_the_answer_points_at_the_first_token():
    context = " ".join(["river"] * 40 + ["Vodia"])
    example = Example(id="0", inputs=("Who ?", context), gold=(Answer("Vodia", context.index("Vodia")),))
    rows = codec(span, "squad11", length=24, stride=10).rows([example])
    assert len(rows) > 1
    assert [int(row.arrays["start"]) for row in rows[:-1]] == [0] * (len(rows) - 1) and rows[-1].arrays["start"] > 0


def test_choices_are_stacked_in_one_row():
    example = Example(id="0", inputs=("The miller", "lives", "sees the old river"), gold=1)
    made = codec(choice, "copa")
    (row,) = made.rows([example])
    assert row.arrays["tokens"].shape[0] == 2 and row.arrays["tokens"].shape == row.arrays["segments"].shape
    assert made.predictions([example], [row], [np.array([0.3, 0.1])]) == [0]


CHOICES = [
    Example(id="0", inputs=("The miller", "lives", "sees the old river"), gold=1),
    Example(id="1", inputs=("Who lives", "Vodia", "the miller", "naïve café !", "near", "river"), gold=4),
    Example(id="2", inputs=("Once", "the old river and the old miller", "near", "Zürich"), gold=0),
]


def test_missing_choices_repeat_the_first_text_and_are_marked_as_unused():
    one, two, three = codec(choice, "copa").rows(CHOICES)
    batch = stack([one, two, three])
    assert batch["tokens"].shape[:2] == (3, 5)
    assert (batch["tokens"][0, 2:] == batch["tokens"][0, 0]).all() and batch["tokens"].any(axis=-1).all()
    assert (batch["unused"] < -1e8).tolist() == [[c >= n for c in range(8)] for n in (2, 5, 3)]


def test_unused_choices_are_never_predicted():
    made = codec(choice, "copa")
    rows = made.rows(CHOICES)
    outputs = [np.array([1.0, 3.0, 9, 9, 9]), np.array([1.0, 2, 3, 4, 5]), np.array([2.0, 1, 1, 9, 9])]
    assert made.predictions(CHOICES, rows, outputs) == [1, 4, 0]


def test_choices_of_other_examples_change_neither_scores_nor_loss_nor_gradients():
    """The reference for a batch of examples with 2, 5 and 3 choices is each example alone."""
    import tensorflow as tf

    from ptmbench.bench.adapt.built import adapted
    from ptmbench.models.card import Size

    made = codec(choice, "copa")
    rows = made.rows(CHOICES)
    shape = Size(layers=1, width=16, heads=2, inner=32, length=32)
    for name in ("bert", "gpt"):
        network = adapted(name, shape, TOKENIZER, Form.CHOICE, "finetune", made.outputs, Settings(dropout=0.0))

        def of(batch, network=network):
            batch = {key: tf.convert_to_tensor(value) for key, value in batch.items()}
            with tf.GradientTape() as tape:
                scores = network._outputs(batch, None)
                loss = network.head.loss(scores, batch)
            gradient = tape.gradient(loss, network.head.dense.kernel.value)
            return scores.numpy(), float(loss), gradient.numpy()

        alone = [of(stack([row])) for row in rows]
        for order in ([0, 1, 2], [2, 1, 0], [1, 0, 2]):
            scores, loss, gradient = of(stack([rows[i] for i in order]))
            for line, i in zip(scores, order, strict=True):
                count = len(CHOICES[i].inputs) - 1
                np.testing.assert_allclose(line[:count], alone[i][0][0, :count], atol=2e-5)
                assert (line[count:] < -1e8).all()
            assert loss == pytest.approx(np.mean([one[1] for one in alone]), abs=1e-5)
            np.testing.assert_allclose(gradient, np.mean([one[2] for one in alone], axis=0), atol=1e-5)
            assert made.predictions([CHOICES[i] for i in order], [rows[i] for i in order], list(scores)) == [
                int(np.argmax(alone[i][0][0])) for i in order
            ]


def test_generated_text_ends_at_its_end_symbol():
    example = Example(id="0", inputs=("The miller",), gold=("The old river",))
    made = codec(generation, "aeslc")
    (row,) = made.rows([example])
    targets = row.arrays["targets"]
    assert targets[0] == V.cls and targets[-1] == V.sep
    assert made.predictions([example], [row], [np.array([*targets[1:], 9, 9])]) == ["The old river"]


def test_each_sentence_is_a_line_if_the_metric_compares_lines():
    """WordPiece generates no line breaks, but rougeLsum compares sentence by sentence."""
    ids = np.array([*TOKENIZER.encode(["The old miller lives near the river . Vodia sees Zürich ."])[0], V.sep])
    (text,) = codec(generation, "cnn_dailymail").predictions([], [], [ids])
    assert text.split("\n") == ["The old miller lives near the river.", "Vodia sees Zürich."]
    (text,) = codec(generation, "xsum").predictions([], [], [ids])
    assert "\n" not in text and text.endswith("Zürich.")


def test_every_form_has_default_settings():
    for form in Form:
        for adaptation in ("finetune", "features"):
            settings = defaults(form, adaptation)
            assert settings.epochs > 0 and settings.learning_rate > 0
