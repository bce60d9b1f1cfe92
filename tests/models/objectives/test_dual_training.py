"""Tests of DualTrain's loss: its equations in NumPy, whose pieces are predicted, which weights are trained, and which
are removed after training."""

from dataclasses import replace

import numpy as np
import pytest

from ptmbench import models
from ptmbench.bench.engine import networks
from ptmbench.models.objectives import dual_training
from ptmbench.models.text.tokenizers import Vocabulary
from tests.models.networks import LENGTH, ROWS, VOCABULARY, corpus, seed, small
from tests.models.objectives.test_distillation import softmax

BERT, DUALTRAIN = models.load("bert"), models.load("dualtrain")
THEIRS = Vocabulary(size=170)
WORDS = replace(VOCABULARY, teacher=THEIRS)


def pair(**changes):
    """A small teacher and a small student with different weights and different vocabularies."""
    import keras

    keras.utils.set_random_seed(3)
    teacher = BERT.build(DUALTRAIN.taught_by(small(DUALTRAIN)), THEIRS)
    rng = np.random.default_rng(3)
    for variable in teacher.loss.variables:
        variable.assign_add(rng.normal(0, 0.1, variable.shape))
    return teacher, DUALTRAIN.build(small(DUALTRAIN), WORDS, teacher)


@pytest.fixture(scope="module")
def teacher_and_student():
    return pair()


def arrays(layer):
    return {variable.path.partition("/")[2]: variable.numpy() for variable in layer.variables}


def distance(student, up):
    """L_p, summed weight by weight."""
    ours, theirs, own = (arrays(x) for x in (student.encoder, student.loss.mixed_encoder, student.loss.projections))
    table = theirs["embeddings/tokens/table"]
    theirs["embeddings/tokens/table"] = np.concatenate([table[:37], table[170:]])
    source, target = (ours, theirs) if up else (theirs, ours)
    total = 0.0
    for path, expected in target.items():
        given, rows = source[path], np.eye(1)
        columns = own["columns_inner" if "/feed_forward/inner/" in path else "columns_width"]
        if path.endswith("kernel"):
            rows = own["rows_inner" if "/feed_forward/outer/" in path else "rows_width"]
        elif path.endswith("table"):
            rows = np.eye(len(given))
        count = 3 if "query_key_value" in path else 1
        for left, right in zip(np.split(given, count, -1), np.split(expected, count, -1), strict=True):
            total += np.sum((rows @ np.atleast_2d(left) @ columns - np.atleast_2d(right)) ** 2)
    return total


@pytest.mark.parametrize("up", [False, True])
def test_distance_of_projected_weights(up, monkeypatch):
    monkeypatch.setattr(DUALTRAIN, "UP", up)
    _, student = pair()
    assert float(student.loss.distance()) == pytest.approx(distance(student, up), rel=1e-5)
    for name, (one, other) in {"rows_width": (32, 64), "rows_inner": (64, 128), "columns_width": (64, 32)}.items():
        shape = tuple(getattr(student.loss.projections, name).shape)
        assert shape == ((other, one) if up else (one, other))


def test_loss_is_the_weighted_sum_of_three_parts(teacher_and_student, monkeypatch):
    _, student = teacher_and_student
    batch = student.batches(corpus(), ROWS, LENGTH)(0, 1)

    def nll(encoder, head, tokens, name, first, last):
        """Returns the mean over the hidden pieces. The softmax is over special tokens and the ids from ``first`` to
        ``last``."""
        used = batch[f"{name}_weights"] > 0
        rows = np.broadcast_to(np.arange(ROWS)[:, None], used.shape)[used]
        places, labels = batch[f"{name}_positions"][used], batch[f"{name}_labels"][used]
        logits = np.asarray(head.logits_of(np.asarray(encoder({"tokens": tokens}).tokens)[rows, places]))
        values = []
        for one, label in zip(logits, labels, strict=True):
            known = np.r_[0:37, first(label) : last(label)]
            values.append(-np.log(softmax(one[known])[known.tolist().index(label)]))
        return np.mean(values)

    loss = student.loss
    hard = nll(student.encoder, loss.heads[0], batch["tokens"], "masked", lambda _: 37, lambda _: 150)
    sides = (lambda label: 170 if label >= 170 else 37), (lambda label: 283 if label >= 170 else 170)
    other = nll(loss.mixed_encoder, loss.mixed_head, batch["mixed_tokens"], "mixed", *sides)
    values = {name: float(value) for name, value in loss(batch).items()}
    assert values["mlm_loss"] == pytest.approx(hard, abs=2e-5)
    assert values["teacher_loss"] == pytest.approx(other, abs=2e-5)
    assert values["loss"] == pytest.approx(hard + other + 0.1 * values["projection_loss"], rel=1e-6)
    monkeypatch.setattr(loss, "epsilon", 0.0)
    assert float(loss(batch)["loss"]) == pytest.approx(hard + other, abs=4e-5)


def test_student_never_reads_an_id_of_the_teacher(teacher_and_student):
    _, student = teacher_and_student
    batches, seen = student.batches(corpus(), ROWS, LENGTH), set()
    for step in range(8):
        batch = batches(step, 1)
        assert max(batch["tokens"].max(), batch["masked_labels"].max()) < 150
        seen |= set(batch["mixed_tokens"].ravel().tolist())
    assert max(seen) < 283 and {one >= 170 for one in seen if one >= 37} == {True, False}


def test_share_of_words_in_pieces_of_the_student(teacher_and_student):
    _, student = teacher_and_student
    for share, sides in ((0.0, {False, True}), (1.0, {True})):
        batch = dual_training.batches(corpus(), WORDS, ROWS, LENGTH, share=share)(0, 1)
        labels = batch["mixed_labels"][batch["mixed_weights"] > 0]
        assert {bool(one >= 170) for one in labels} <= sides
        assert (labels >= 170).mean() < 0.2 or share == 1.0  # the last word of a row is always the student's


def test_copy_of_the_teacher_starts_with_its_weights_and_all_weights_are_trained(teacher_and_student):
    import tensorflow as tf

    teacher, student = teacher_and_student
    loss, theirs = student.loss, arrays(teacher.encoder)
    for path, value in arrays(loss.mixed_encoder).items():
        assert np.array_equal(value[:170] if path == "embeddings/tokens/table" else value, theirs[path]), path
    batch = student.batches(corpus(), ROWS, LENGTH)(0, 1)
    variables = loss.trainable_variables
    with tf.GradientTape() as tape:
        value = loss(batch, seed=seed())["loss"]
    assert all(one is not None for one in tape.gradient(value, [variable.value for variable in variables]))
    assert not {id(v) for v in teacher.loss.variables} & {id(v) for v in variables}  # its copy is trained


def test_pieces_with_the_same_spelling_start_with_the_same_vector():
    import keras

    keras.utils.set_random_seed(3)
    pieces = tuple(f"w{number}" for number in range(60))
    theirs, ours = Vocabulary(size=60, pieces=pieces), Vocabulary(size=50, pieces=(*pieces[:37], *pieces[40:53]))
    teacher = BERT.build(DUALTRAIN.taught_by(small(DUALTRAIN)), theirs)
    student = DUALTRAIN.build(small(DUALTRAIN), replace(ours, teacher=theirs), teacher)
    table = student.loss.mixed_encoder.token_embedding.numpy()
    assert np.array_equal(table[60:], table[40:53])


def test_scaffold_of_the_training_is_removed_from_the_model(teacher_and_student):
    """Adaptations build the same student without a teacher."""
    _, student = teacher_and_student
    own = {variable.path for variable in networks.model_variables(student.loss)}
    without_teacher = DUALTRAIN.build(small(DUALTRAIN), VOCABULARY)
    assert own == {variable.path for variable in without_teacher.loss.variables}
    all_weights = networks.weights(student.loss.variables)
    assert networks.without_scaffold(student.loss, all_weights).keys() == own
    assert all(path.startswith(student.loss.scaffold) for path in all_weights.keys() - own)
    batch = student.batches(corpus(), ROWS, LENGTH)(0, 1)
    with pytest.raises(ValueError, match="needs a teacher, and the network was built without one"):
        without_teacher.loss(batch)


@pytest.mark.parametrize("size", ["tiny", "mini", "small", "base"])
def test_sizes(size):
    own = DUALTRAIN.SIZES[size]
    assert DUALTRAIN.taught_by(own) == BERT.SIZES[size] and own.layers == BERT.SIZES[size].layers
    assert DUALTRAIN.smaller(30_522) == 5087 and DUALTRAIN.smaller(300) == 256 and DUALTRAIN.smaller(200) == 200


def test_base_student_has_as_many_parameters_as_its_file_says():
    parameters = DUALTRAIN.describe(DUALTRAIN.SIZES["base"], Vocabulary(size=4928)).parameters().total
    assert parameters == pytest.approx(6.4e6, rel=0.01)
