"""A broken objective is told in a sentence with its file, before anything is trained."""

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
    """Predicts nothing: the mean of the first numbers that the encoder gives."""

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


def own(kind=Mean, sampler=batches):
    """BERT's encoder under an objective of one's own."""
    bert = network("bert")
    return replace(bert, loss=kind(bert.encoder), batches=Sampler(sampler))


def trained(network):
    """What the first step sees of the loss."""
    objectives.check(network, HERE, ())
    make = objectives.batches_of(network, corpus(), ROWS, LENGTH)
    return objectives.checked(network.loss)(make(0, 0))


def test_a_sound_one_passes():
    assert set(trained(own())) == {"loss", "mean"}


@every_model
def test_every_objective_keeps_the_contract(name):
    """It returns the names in ``reports``, and has the same totals for every batch."""
    model = made(name)
    objectives.check(model.built, Path(model.module.__file__), model.module.CARD.objectives)
    text = corpus_of(name)
    make = objectives.batches_of(model.built, text, ROWS, LENGTH)
    assert objectives.checked(model.built.loss)(make(0, 0)).keys() == {"loss", *model.built.loss.reports}
    unknown = set(model.built.batches.needs) - {PAIRS, *text.layers, *(text.media.widths if text.media else ())}
    assert not unknown, f"{name} needs {unknown}, which no corpus of the tests has"


def test_every_file_has_a_side_of_an_objective():
    """An objective samples batches or computes a loss; files that samplers share are not listed."""
    from importlib import import_module

    assert not {"masking", "sampling"} & {*models.objective_names()}
    for name in models.objective_names():
        values = vars(import_module(f"ptmbench.models.objectives.{name}")).values()
        sides = [one for one in values if isinstance(one, type(lm.batches))]
        sides += [one for one in values if isinstance(one, type) and issubclass(one, Objective | Part)]
        assert sides, f"models/objectives/{name}.py has neither batches, nor an Objective, nor a Part"


def test_what_a_function_needs_goes_with_its_sampler():
    @sampled(PAIRS, "languages")
    def both(corpus, vocabulary, batch, length, *, more=0):
        """What it says."""
        return lambda step, seed: (corpus, vocabulary, batch, length, more, step, seed)

    sampler = both.of(VOCABULARY, more=3)
    assert sampler.needs == both.needs == (PAIRS, "languages") and both.__doc__ == "What it says."
    assert sampler("text", 4, 8)(1, 2) == both("text", VOCABULARY, 4, 8, more=3)(1, 2)
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
def test_a_broken_loss_is_told_with_its_file(kind, words):
    with pytest.raises(BrokenModel) as told:
        trained(own(kind))
    assert str(told.value).startswith(str(HERE)) and words in str(told.value), told.value


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
def test_a_broken_sampler_is_told_with_its_file(sampler, words):
    with pytest.raises(BrokenModel) as told:
        trained(own(sampler=sampler))
    assert str(told.value).startswith(str(HERE)) and words in str(told.value), told.value


@pytest.mark.parametrize(
    ("name", "changes", "words"),
    [
        ("gpt", {"decode": None, "writer": None}, "Give writes=True and a decode, or neither."),
        ("gpt", {"writer": None}, "Give either reads_again=True or a writer."),
        ("elmo", {"log_likelihood": None}, "Give tells_likelihood=True and a log_likelihood, or neither."),
    ],
)
def test_description_and_network_may_not_contradict_each_other(name, changes, words, monkeypatch):
    module, built = models.load(name), replace(network(name), **changes)
    monkeypatch.setattr(module, "build", lambda size, vocabulary: built)
    with pytest.raises(BrokenModel) as told:
        networks.build(name, small(module), SimpleNamespace(vocabulary=VOCABULARY), 0)
    assert str(told.value).startswith(f"{module.__file__}: describe and build contradict each other. {words}")


def test_a_head_that_the_description_leaves_out_is_told(monkeypatch):
    module, built = models.load("bert"), network("bert")
    whole = module.describe
    monkeypatch.setattr(module, "build", lambda size, vocabulary: built)
    monkeypatch.setattr(module, "describe", lambda size, vocabulary: replace(whole(size, vocabulary), heads=()))
    with pytest.raises(
        BrokenModel, match=r"bert\.py: .* describe counts \d+ weights, and the network has \d+\. Does one"
    ):
        networks.build("bert", small(module), SimpleNamespace(vocabulary=VOCABULARY), 0)


@pytest.mark.parametrize(("name", "left_out"), [("bert", "nsp"), ("spanbert", "sbo"), ("ernie_thu", "dea")])
def test_an_objective_that_the_card_leaves_out_is_told(name, left_out, monkeypatch):
    module, built = models.load(name), network(name)
    named = tuple(one for one in module.CARD.objectives if one != left_out)
    monkeypatch.setattr(module, "build", lambda size, vocabulary: built)
    monkeypatch.setattr(module, "CARD", replace(module.CARD, objectives=named))
    with pytest.raises(BrokenModel, match=rf"{name}\.py: CARD.objectives is .* Add '{left_out}' to the card"):
        networks.build(name, small(module), SimpleNamespace(vocabulary=VOCABULARY), 0)


def test_a_slip_in_build_is_told_with_its_line(monkeypatch):
    module = models.load("gpt")
    slip = compile("\n\ndef build(size, vocabulary):\n    return size.breadth", module.__file__, "exec")
    values = {}
    exec(slip, values)
    monkeypatch.setattr(module, "build", values["build"])
    with pytest.raises(BrokenModel, match=r"gpt\.py, line 4, cannot be run: AttributeError: 'Size' object has no"):
        networks.build("gpt", small(module), SimpleNamespace(vocabulary=VOCABULARY), 0)


def test_batches_that_are_no_sampler_are_told():
    with pytest.raises(BrokenModel, match="where a models.objective.Sampler belongs"):
        objectives.check(replace(own(), batches=batches), HERE, ())


def test_what_other_files_raise_goes_through():
    """A sentence about the input, and a slip elsewhere, are not the objective's."""

    def refusing(corpus, batch, length):
        raise ValueError("Rows are too short.")

    with pytest.raises(ValueError, match=r"^Rows are too short\.$"):
        objectives.batches_of(own(sampler=refusing), corpus(), ROWS, LENGTH)
    with pytest.raises(AttributeError):
        objectives.batches_of(network("gpt"), SimpleNamespace(), ROWS, LENGTH)
