"""Our losses of inner layers with the weights of `transformers`, student and teacher: TinyBERT, MiniLM and BERT-PKD."""

from dataclasses import replace

import numpy as np

from ptmbench import models
from tests.models.frozen import Frozen
from tests.models.frozen.networks import SIZE, VOCABULARY, assign, inputs

STUDENT, TEACHER = replace(SIZE, width=8, inner=12), replace(SIZE, layers=4)
_RNG = np.random.default_rng(5)
FIT = _RNG.normal(0, 0.3, (STUDENT.width, TEACHER.width)), _RNG.normal(0, 0.3, TEACHER.width)
"""Kernel and bias of the projection."""


def batch() -> dict[str, np.ndarray]:
    """Two rows, the second one padded."""
    return {"tokens": inputs()["tokens"]}


def losses(frozen: Frozen) -> dict[str, np.ndarray]:
    """The scalars, and the gradients of two sums in the student's token vectors."""
    import tensorflow as tf

    from ptmbench.bench.adapt.pkd.network import patience
    from ptmbench.models.layers.states import inner_states

    def named(prefix):
        return {name.removeprefix(prefix): w for name, w in frozen.weights.items() if name.startswith(prefix)}

    teacher = models.load("bert").build(TEACHER, VOCABULARY)
    missing = assign(teacher, "bert", named("teacher."), TEACHER)
    assert all(path.startswith(("encoder/pooler/", "nsp/")) for path in missing), missing
    given, found = batch(), {}
    for name, rows, parts in (
        ("tinybert", slice(1), {"hidden": "hidden_loss", "attention": "attention_loss"}),
        ("minilm", slice(2), {"last_attention": "attention_loss", "relation": "relation_loss"}),
    ):
        built = models.load(name).build(STUDENT, VOCABULARY, teacher)
        assert all(path.startswith("fit/") for path in assign(built, "bert", named("student."), STUDENT))
        if name == "tinybert":
            built.loss.fit.kernel.assign(FIT[0])
            built.loss.fit.bias.assign(FIT[1])
        table = built.encoder.token_embedding.value
        with tf.GradientTape() as tape:
            values = built.loss({"tokens": given["tokens"][rows]})
        found |= {ours: np.asarray(values[theirs]) for ours, theirs in parts.items()}
        gradient = tf.convert_to_tensor(tape.gradient(values["loss"], table))
        found["layer_gradient" if name == "tinybert" else "relation_gradient"] = np.asarray(gradient)
    layers = inner_states(teacher.encoder, given).layers
    student, taught = (tf.stack([layers[place][:, 0] for place in places], 1) for places in ((1, 2), (2, 4)))
    return found | {"patience": np.asarray(patience(student, taught))}


OURS = {"inner_distillation": losses}
