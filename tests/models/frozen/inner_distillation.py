"""Computes our losses of inner layers for TinyBERT, MiniLM and BERT-PKD, with student and teacher of `transformers`."""

from dataclasses import replace

import numpy as np

from ptmbench import models
from tests.models.frozen import Frozen
from tests.models.frozen.networks import SIZE, VOCABULARY, assign, inputs

STUDENT, TEACHER = replace(SIZE, width=8, inner=12), replace(SIZE, layers=4)
_RNG = np.random.default_rng(5)
FIT = _RNG.normal(0, 0.3, (STUDENT.width, TEACHER.width)), _RNG.normal(0, 0.3, TEACHER.width)
"""Kernel and bias of TinyBERT's projection of the student's states to the teacher's width."""


def batch() -> dict[str, np.ndarray]:
    """Returns two rows. The second one is padded."""
    return {"tokens": inputs()["tokens"]}


def losses(frozen: Frozen) -> dict[str, np.ndarray]:
    """Computes the losses and two gradients.

    They are those of TinyBERT's and MiniLM's total loss with respect to the student's token vectors.
    """
    import tensorflow as tf

    from ptmbench.bench.adapt.pkd.network import patience
    from ptmbench.models.layers.states import inner_states

    def weights_of(prefix):
        return {name.removeprefix(prefix): w for name, w in frozen.weights.items() if name.startswith(prefix)}

    teacher = models.load("bert").build(TEACHER, VOCABULARY)
    missing = assign(teacher, "bert", weights_of("teacher."), TEACHER)
    assert all(path.startswith(("encoder/pooler/", "nsp/")) for path in missing), missing
    given, outputs = batch(), {}
    for name, rows, parts in (
        ("tinybert", slice(1), {"hidden": "hidden_loss", "attention": "attention_loss"}),
        ("minilm", slice(2), {"last_attention": "attention_loss", "relation": "relation_loss"}),
    ):
        built = models.load(name).build(STUDENT, VOCABULARY, teacher)
        assert all(path.startswith("fit/") for path in assign(built, "bert", weights_of("student."), STUDENT))
        if name == "tinybert":
            built.loss.fit.kernel.assign(FIT[0])
            built.loss.fit.bias.assign(FIT[1])
        table = built.encoder.token_embedding.value
        with tf.GradientTape() as tape:
            values = built.loss({"tokens": given["tokens"][rows]})
        outputs |= {ours: np.asarray(values[theirs]) for ours, theirs in parts.items()}
        gradient = tf.convert_to_tensor(tape.gradient(values["loss"], table))
        outputs["layer_gradient" if name == "tinybert" else "relation_gradient"] = np.asarray(gradient)
    layers = inner_states(teacher.encoder, given).layers
    student, taught = (tf.stack([layers[place][:, 0] for place in places], 1) for places in ((1, 2), (2, 4)))
    return outputs | {"patience": np.asarray(patience(student, taught))}


OURS = {"inner_distillation": losses}
