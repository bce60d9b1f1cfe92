"""Compares vectors and logits of our networks with keras-hub, for presets that the package itself saved."""

import json
from importlib.metadata import version

import h5py
import pytest

from ptmbench.models.published import folder
from tests.models.frozen import keras_hub as ours
from tests.models.frozen import read, weight
from tests.models.published.presets import save

pytestmark = [pytest.mark.reference, pytest.mark.slow]


@pytest.mark.parametrize("name", ours.NAMES)
def test_a_preset_gives_the_same_vectors_here(name, tmp_path, hold, request):
    """The stored vocabulary is used, except with ``--freeze``, because training a new one breaks ties at random."""
    pieces, shapes = None, {}
    if not request.config.getoption("freeze"):
        kept = read(f"keras_hub_{name}").given
        ours.write(kept, tmp_path)
        pieces = json.loads(kept["config.json"].tobytes())["config"]["vocabulary_size"]
    network = save(name, tmp_path, pieces)
    with h5py.File(tmp_path / ours.WEIGHTS, "a") as file:
        file.visititems(lambda key, part: shapes.update({key: part.shape} if isinstance(part, h5py.Dataset) else {}))
        for key, shape in shapes.items():
            file[key][...] = weight(key, shape)
    network.load_weights(str(tmp_path / ours.WEIGHTS))
    rows = ours.rows(network.vocabulary_size)
    present = rows["padding_mask"][..., None]
    given = {name: rows[name.removeprefix("encoder_").removeprefix("decoder_")] for name in network.input}
    outputs = network(given)
    if not isinstance(outputs, dict):
        outputs = {"sequence_output": outputs}
    outputs = {key: value.numpy() for key, value in outputs.items()}
    expected = {"hidden": outputs.get("encoder_sequence_output", outputs.get("sequence_output")) * present}
    if "pooled_output" in outputs:
        expected["pooled"] = outputs["pooled_output"]
    if (hidden := outputs.get("decoder_sequence_output")) is not None:
        scale = hidden.shape[-1] ** -0.5 if name == "t5" else 1.0  # T5's output layer scales, the backbone does not
        expected["logits"] = hidden @ network.token_embedding.embeddings.numpy().T * scale * present
    assert folder.read(tmp_path).model == name
    packages = ", ".join(f"{package} {version(package)}" for package in ("keras-hub", "keras", "tensorflow"))
    hold(f"keras_hub_{name}", packages, shapes, expected, **ours.files(tmp_path))
