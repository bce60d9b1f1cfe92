"""A broken objective is reported with its file before training starts."""

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import keras
import numpy as np
import pytest
import tensorflow as tf

from ptmbench import models
from ptmbench.bench.engine import networks, objectives
from ptmbench.models import BrokenModel
from ptmbench.models.objective import PAIRS, Objective, Part, Sampler, sampled
from ptmbench.models.objectives import _joint, lm, tlm
from tests.models.networks import LENGTH, ROWS, VOCABULARY, corpus, corpus_of, every_model, made, network, small

HERE = Path(__file__)


class Mean(Objective, keras.layers.Layer):
    """A minimal objective: the mean of the first hidden unit of the first token."""

    reports = ("mean",)

    def __init__(self, encoder):
        super().__init__(name="loss")
        self.encoder, self.built = encoder, True

    def totals(self, batch):
        return {"rows": tf.shape(batch["tokens"])[0]}

    def call(self, batch, seed=None, totals=None):
        totals = totals or self.totals(batch)
        first = self.encoder(batch, seed=seed).tokens[:, 0, 0]
        mean = tf.reduce_sum(first) / tf.cast(totals["rows"], tf.float32)
        return {"loss": mean, "mean": mean}


def batches(corpus, batch, length):
    return lambda step, seed: {"tokens": np.full((batch, length), 7 + step + seed, np.int32)}


def bert_with_objective(kind=Mean, sampler=batches):
    """BERT's encoder with the objective ``kind`` and the sampler ``sampler``."""
    bert = network("bert")
    return replace(bert, loss=kind(bert.encoder), batches=Sampler(sampler))


def check_and_call(network):
    """Checks the objective and returns the outputs of its loss for the first batch."""
    objectives.check(network, HERE, ())
    make = objectives.batches_of(network, corpus(), ROWS, LENGTH)
    return objectives.checked(network.loss)(make(0, 0))


def test_a_valid_objective_passes():
    assert set(check_and_call(bert_with_objective())) == {"loss", "mean"}


@every_model
def test_every_objective_fulfils_the_contract(name):
    """The checks pass, the outputs are the loss and ``reports``, and the test corpora have what the batches need."""
    model = made(name)
    objectives.check(model.built, Path(model.module.__file__), model.module.CARD.objectives)
    text = corpus_of(name)
    make = objectives.batches_of(model.built, text, ROWS, LENGTH)
    assert objectives.checked(model.built.loss)(make(0, 0)).keys() == {"loss", *model.built.loss.reports}
    unknown = set(model.built.batches.needs) - {PAIRS, *text.layers, *(text.media.widths if text.media else ())}
    assert not unknown, f"{name} needs {unknown}, which no corpus of the tests has"


def test_every_objective_file_has_a_sampler_or_a_loss():
    """An objective samples batches or computes a loss. Files with shared helpers of samplers are not listed."""
    from importlib import import_module

    assert not {"masking", "sampling"} & {*models.objective_names()}
    for name in models.objective_names():
        values = vars(import_module(f"ptmbench.models.objectives.{name}")).values()
        parts = [one for one in values if isinstance(one, type(lm.batches))]
        parts += [one for one in values if isinstance(one, type) and issubclass(one, Objective | Part)]
        assert parts, f"models/objectives/{name}.py has neither batches, nor an Objective, nor a Part"


def test_a_sampler_keeps_the_needs_of_its_function():
    @sampled(PAIRS, "languages")
    def sample(corpus, vocabulary, batch, length, *, more=0):
        """What it says."""
        return lambda step, seed: (corpus, vocabulary, batch, length, more, step, seed)

    sampler = sample.of(VOCABULARY, more=3)
    assert sampler.needs == sample.needs == (PAIRS, "languages") and sample.__doc__ == "What it says."
    assert sampler("text", 4, 8)(1, 2) == sample("text", VOCABULARY, 4, 8, more=3)(1, 2)
    assert sampler("text", 4, 8)(1, 2) == ("text", VOCABULARY, 4, 8, 3, 1, 2)
    assert tlm.batches.of(VOCABULARY).needs == ("languages", PAIRS)


class Nameless(Mean):
    reports = ()


class Listed(Mean):
    reports = ["mean"]  # noqa: RUF012


class Slip(Mean):
    def call(self, batch, seed=None, totals=None):
        return {"loss": batch["nothing"], "mean": 0.0}


class Counted(Mean):
    def totals(self, batch):
        return {"rows": tf.constant(4.0)}


class Totalless(Objective, keras.layers.Layer):
    def __init__(self, encoder):
        super().__init__(name="loss")
        self.encoder, self.built = encoder, True

    def call(self, batch, seed=None, totals=None):
        return {"loss": 0.0}


class Callless(keras.layers.Layer, Objective):
    def __init__(self, encoder):
        super().__init__(name="loss")
        self.encoder, self.built = encoder, True

    def totals(self, batch):
        return {}


class Plain(keras.layers.Layer):
    def __init__(self, encoder):
        super().__init__(name="loss")


class Headless(Part, keras.layers.Layer):
    def build(self):
        pass

    def call(self, encoding, batch, totals):
        return {"a_loss": 0.0}


@pytest.mark.parametrize(
    ("kind", "words"),
    [
        (Nameless, "Nameless gives loss, mean, where loss belong. List all outputs"),
        (Listed, "Listed.reports is ['mean'], where a tuple"),
        (Slip, "reads 'nothing', which the batches of this model do not have. They have tokens. Add it where build"),
        (Counted, "Counted.totals gives 'rows' as <dtype: 'float32'> [], where a count, int32 [], belongs."),
        (Totalless, "Totalless has no method totals. Its arguments and result are described at models.objective.Objec"),
        (Callless, "Callless has no method call."),
        (Plain, "the loss of test_objective.py is Plain, where a Keras layer that is a models.objective.Objective"),
        (lambda encoder: _joint.Joint(encoder, [Headless()]), "Headless has no method totals."),
    ],
)
def test_a_broken_loss_is_reported_with_its_file(kind, words):
    with pytest.raises(BrokenModel) as error:
        check_and_call(bert_with_objective(kind))
    assert str(error.value).startswith(str(HERE)) and words in str(error.value), error.value


def drawing(corpus, batch, length):
    return lambda step, seed: {"tokens": np.random.default_rng().integers(5, 99, (batch, length)).astype(np.int32)}


def unpacking(corpus, batch, length):
    rows, _, _ = corpus.documents, length
    return lambda step, seed: {"tokens": rows[:batch]}


def slipping(corpus, batch, length):
    return lambda step, seed: {"tokens": corpus.words[:batch]}


@pytest.mark.parametrize(
    ("sampler", "words"),
    [
        (drawing, "'tokens' of step 0 is another array each time. Take random numbers from models.objectives.sampling"),
        (unpacking, "cannot be run: ValueError: not enough values to unpack (expected 3, got 2)"),
        (slipping, "cannot be run: AttributeError: 'Corpus' object has no attribute 'words'"),
        (lambda c, b, t: lambda *_: {"tokens": np.ones((b, t))}, "'tokens' of a batch is float64, where int32 or"),
        (lambda c, b, t: lambda *_: {"tokens": np.ones((1, t), np.int32)}, f"the first axis has the {ROWS} rows"),
        (
            lambda c, b, t: lambda *_: {"ids": np.ones((b, t), np.int32)},
            "a batch has ids, but no tokens, int32",
        ),
        (lambda c, b, t: lambda *_: [1], "a batch is [1], where a dict of named NumPy arrays belongs."),
    ],
)
def test_a_broken_sampler_is_reported_with_its_file(sampler, words):
    with pytest.raises(BrokenModel) as error:
        check_and_call(bert_with_objective(sampler=sampler))
    assert str(error.value).startswith(str(HERE)) and words in str(error.value), error.value


@pytest.mark.parametrize(
    ("name", "changes", "words"),
    [
        ("gpt", {"decode": None, "writer": None}, "Give writes=True and a decode, or neither."),
        ("gpt", {"writer": None}, "Give either reads_again=True or a writer."),
        ("elmo", {"log_likelihood": None}, "Give tells_likelihood=True and a log_likelihood, or neither."),
    ],
)
def test_describe_and_build_must_not_contradict_each_other(name, changes, words, monkeypatch):
    module, built = models.load(name), replace(network(name), **changes)
    monkeypatch.setattr(module, "build", lambda size, vocabulary: built)
    with pytest.raises(BrokenModel) as error:
        networks.build(name, small(module), SimpleNamespace(vocabulary=VOCABULARY), 0)
    assert str(error.value).startswith(f"{module.__file__}: describe and build contradict each other. {words}")


def test_a_head_missing_in_the_description_is_reported(monkeypatch):
    module, built = models.load("bert"), network("bert")
    full_description = module.describe
    monkeypatch.setattr(module, "build", lambda size, vocabulary: built)
    monkeypatch.setattr(
        module, "describe", lambda size, vocabulary: replace(full_description(size, vocabulary), heads=())
    )
    with pytest.raises(
        BrokenModel, match=r"bert\.py: .* describe counts \d+ weights, and the network has \d+\. Does one"
    ):
        networks.build("bert", small(module), SimpleNamespace(vocabulary=VOCABULARY), 0)


@pytest.mark.parametrize(("name", "left_out"), [("bert", "nsp"), ("spanbert", "sbo"), ("ernie_thu", "dea")])
def test_an_objective_missing_on_the_card_is_reported(name, left_out, monkeypatch):
    module, built = models.load(name), network(name)
    named = tuple(one for one in module.CARD.objectives if one != left_out)
    monkeypatch.setattr(module, "build", lambda size, vocabulary: built)
    monkeypatch.setattr(module, "CARD", replace(module.CARD, objectives=named))
    with pytest.raises(BrokenModel, match=rf"{name}\.py: CARD.objectives is .* Add '{left_out}' to the card"):
        networks.build(name, small(module), SimpleNamespace(vocabulary=VOCABULARY), 0)


def test_an_error_in_build_is_reported_with_its_line(monkeypatch):
    module = models.load("gpt")
    slip = compile("\n\ndef build(size, vocabulary):\n    return size.breadth", module.__file__, "exec")
    values = {}
    exec(slip, values)
    monkeypatch.setattr(module, "build", values["build"])
    with pytest.raises(BrokenModel, match=r"gpt\.py, line 4, cannot be run: AttributeError: 'Size' object has no"):
        networks.build("gpt", small(module), SimpleNamespace(vocabulary=VOCABULARY), 0)


def test_batches_have_to_be_a_sampler():
    with pytest.raises(BrokenModel, match="where a models.objective.Sampler belongs"):
        objectives.check(replace(bert_with_objective(), batches=batches), HERE, ())


def test_errors_raised_in_other_files_are_not_changed():
    """Errors about the input, and bugs in other files, are not reported as a broken objective."""

    def refusing(corpus, batch, length):
        raise ValueError("Rows are too short.")

    with pytest.raises(ValueError, match=r"^Rows are too short\.$"):
        objectives.batches_of(bert_with_objective(sampler=refusing), corpus(), ROWS, LENGTH)
    with pytest.raises(AttributeError):
        objectives.batches_of(network("gpt"), SimpleNamespace(), ROWS, LENGTH)
