"""Dropout before heads: what it drops and when, and that a resumed training drops the same."""

from types import SimpleNamespace

import numpy as np
import pytest
import tensorflow as tf

from ptmbench.bench.adapt import loop, settings
from ptmbench.bench.adapt.adapted import Adapted
from ptmbench.bench.adapt.course import Bookmark
from ptmbench.bench.adapt.heads import InputRow
from ptmbench.models.pretrainable import Encoding
from ptmbench.models.text.tokenizers import Vocabulary
from ptmbench.tasks.forms import Form

VOCABULARY = Vocabulary(size=60)
WIDTH, RATE = 64, 0.25


class Encoder:
    """An encoder without weights. It gives all tokens the same vector, which has no zeros."""

    dropout, depth, width, trainable_variables = 0.0, 1, WIDTH, ()

    def __call__(self, batch, seed=None):
        rows, length = tf.shape(batch["tokens"])[0], tf.shape(batch["tokens"])[1]
        tokens = tf.ones([rows, length, WIDTH])
        return Encoding(tokens=tokens, pooled=2.0 * tf.ones([rows, WIDTH]), layers=(tokens, tokens))


def made(**changes):
    """A classifier of two classes over an `Encoder`, and its settings."""
    chosen = settings.changed(settings.defaults(Form.CLASSIFICATION, "finetune"), {"head_dropout": RATE} | changes)
    network = SimpleNamespace(encoder=Encoder(), loss=SimpleNamespace(variables=[]), decode=None)
    found = Adapted(network, VOCABULARY, Form.CLASSIFICATION, "finetune", 4, chosen, lambda rows: 0.0)
    found.reset({}, 0)
    return found, chosen


def batch(rows=64, length=16):
    tokens = np.full((rows, length), 7, np.int32)
    unused = np.tile(np.float32([0, 0, -1e9, -1e9]), (rows, 1))
    return {"tokens": tokens, "segments": tokens * 0, "label": np.arange(rows, dtype=np.int32) % 2, "unused": unused}


def read(found, seed):
    """The inputs of the head in a step with ``seed``: token vectors and pooled vectors."""
    seen, head = {}, found.head
    found.head = lambda reading, batch: seen.update(tokens=reading.tokens.numpy(), pooled=reading.pooled.numpy())
    found._outputs({name: tf.constant(array) for name, array in batch().items()}, seed)
    found.head = head
    return seen


def test_a_share_of_the_inputs_of_a_head_is_dropped_and_the_rest_scaled_up():
    found, _ = made()
    first, again, other = (read(found, tf.constant(seed)) for seed in ([3, 1], [3, 1], [3, 2]))
    for name, value in (("tokens", 1.0), ("pooled", 2.0)):
        dropped = first[name] == 0
        assert abs(dropped.mean() - RATE) < 4 * (RATE * (1 - RATE) / dropped.size) ** 0.5
        assert np.allclose(first[name][~dropped], value / (1 - RATE))
        assert np.array_equal(first[name], again[name])  # what is dropped depends only on the seed
        assert not np.array_equal(first[name], other[name])
    plain = (first["tokens"] == 0)[:, 0] != (first["pooled"] == 0)
    assert plain.any()  # tokens and pooled vectors draw independently


def test_nothing_is_dropped_without_a_seed_or_a_rate():
    for found, seed in ((made()[0], None), (made(head_dropout=0)[0], tf.constant([3, 1]))):
        seen = read(found, seed)
        assert (seen["tokens"] == 1).all() and (seen["pooled"] == 2).all()


def test_predictions_and_mean_losses_are_without_dropout():
    found, _ = made(head_dropout=0.9)
    rows = [InputRow({name: array[i] for name, array in batch(4).items()}, i) for i in range(4)]
    expected = 2.0 * np.asarray(found.head.dense.kernel).sum(axis=0) + np.asarray(found.head.dense.bias)
    for numbers in loop.outputs(found, rows):
        assert np.allclose(numbers[:2], expected[:2], atol=1e-5)
    z = expected[:2] - expected[:2].max()
    nll = -(z - np.log(np.exp(z).sum()))
    assert found.mean_loss(rows) == pytest.approx(nll.mean(), abs=1e-5)


def test_a_stopped_training_resumes_with_the_same_dropout(tmp_path):
    """The weights are equal bit for bit after a stop in the first or in the second epoch."""
    rows = [InputRow({name: array[i] for name, array in batch(12).items()}, i) for i in range(12)]

    class Stopped(BaseException):
        pass

    def run_training(folder=None, stop=None):
        found, chosen = made(batch=4, epochs=2)
        step, count = found.step, [0]

        def counted(*given):
            if count[0] == stop:
                raise Stopped
            count[0] += 1
            return step(*given)

        def score():  # depends only on the weights
            return float(np.abs(found.state()[0]).sum())

        counted.restore, counted.state = step.restore, step.state
        found.step = counted
        course = loop.train(found, rows, chosen, 5, score, Bookmark(folder, -1.0, lambda line: None))
        return [array.tolist() for array in found.state()], course.curve, count[0]

    uninterrupted, curve, steps = run_training()
    assert steps == 6
    for stop in (1, 4):
        with pytest.raises(Stopped):
            run_training(tmp_path / str(stop), stop)
        again, its_curve, more = run_training(tmp_path / str(stop))
        assert (again, its_curve, more) == (uninterrupted, curve, steps - stop)


def test_forms_and_adaptations_have_the_dropout_of_their_papers():
    of = {form: settings.defaults(form, "finetune").head_dropout for form in (*Form,)}
    assert of[Form.CLASSIFICATION] == of[Form.REGRESSION] == of[Form.TAGGING] == of[Form.CHOICE] == 0.1
    assert of[Form.SPAN] == of[Form.FEW_SHOT] == of[Form.RANKING] == of[Form.GENERATION] == 0.0
    assert settings.defaults(Form.GENERATION, "extract").head_dropout == 0.1
    assert settings.defaults(Form.TAGGING, "taglm").head_dropout == 0.0


def test_only_adaptations_that_use_them_record_dropout_and_adam_settings():
    names = {"beta1", "beta2", "epsilon", "bias_correction", "head_dropout"}
    assert names <= set(settings.recorded(settings.defaults(Form.CLASSIFICATION, "finetune")))
    for adaptation in ("prompt", "cloze", "likelihood", "words", "mapping", "baseline"):
        assert not names & set(settings.recorded(settings.defaults(Form.CLASSIFICATION, adaptation)))
    ulmfit = settings.defaults(Form.CLASSIFICATION, "ulmfit")
    assert (ulmfit.adam["beta1"], ulmfit.adam["beta2"]) == (0.7, 0.99)  # Howard and Ruder (2018), section 4.1
    one, other = (settings.changed(ulmfit, {"head_dropout": rate}) for rate in (0.1, 0.2))
    assert settings.baked(one) != settings.baked(other)  # the rate is a part of the graph
