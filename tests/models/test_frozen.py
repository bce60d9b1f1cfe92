"""Networks against arrays that `transformers` computed on the same weights (`tests.models.frozen`)."""

import json

import numpy as np
import pytest

from ptmbench import models
from ptmbench.models import published
from tests.models.frozen import CLASSES, FOLDER, SIZE, SIZES, VOCABULARY, inputs, weight

TOLERANCE = 2e-5


@pytest.mark.parametrize("name", CLASSES)
def test_vectors_are_those_of_transformers(name):
    size, given = SIZES.get(name, SIZE), inputs()
    with np.load(FOLDER / f"{name}.npz") as file:
        frozen = dict(file)
    arrays = {key: weight(key, tuple(shape)) for key, shape in json.loads(frozen["weights"].tobytes()).items()}
    built, absent = models.load(name).build(size, VOCABULARY), set()
    entries = {entry.ours: entry for entry in published.load(name).weights(size)}
    for variable in built.loss.variables:
        entry = entries[variable.path]
        if set(entry.theirs) <= set(arrays):
            variable.assign(entry.read(arrays, tuple(variable.shape)))
        else:
            absent.add(variable.path.split("/")[0])
    assert absent == ({"generator", "rtd"} if name == "electra" else set())  # the reference keeps these elsewhere
    encoding, present = built.encoder(given), given["tokens"] > 0
    for ours, theirs in zip(encoding.layers, frozen["hidden"], strict=True):
        assert np.abs(ours.numpy() - theirs)[present].max() < TOLERANCE
    if "logits" in frozen:
        logits, most = built.decode(given).numpy(), max(1.0, np.abs(frozen["logits"]).max())
        assert np.abs(logits - frozen["logits"]).max() < TOLERANCE * most
