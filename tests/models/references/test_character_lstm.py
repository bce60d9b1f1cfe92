"""Compares character-based ELMo with PyTorch's convolution and LSTM with projection.

PyTorch's LSTM does not clip, so clipping is off here. `tests.models.test_character_lstm` checks it.
"""

import keras
import numpy as np

from ptmbench.models.architectures import recurrent_encoders
from ptmbench.models.card import Size
from ptmbench.models.layers.recurrent_networks import built
from ptmbench.models.layers.spelling import symbols
from ptmbench.models.text.tokenizers import Vocabulary
from tests.models.references.common import TOLERANCE, difference, torch

VOCABULARY = Vocabulary(size=101)
FILTERS = ((1, 3), (2, 4), (5, 6), (7, 7))


def tensor(value) -> "torch.Tensor":
    return torch.tensor(np.array(value, np.float32))


def gates(value, axis) -> "torch.Tensor":
    """Converts a weight to PyTorch's layout: gates in the order i, f, g, o, and outputs as the first axis."""
    g, i, f, o = np.split(np.asarray(value), 4, axis=axis)
    return tensor(np.concatenate([i, f, g, o], axis=axis).T)


def recurrent(layer, x: "torch.Tensor") -> "torch.Tensor":
    """Computes one direction of one layer over x [B, T, P] with PyTorch."""
    width, cells = layer.config.width, layer.config.cells
    network = torch.nn.LSTM(width, cells, batch_first=True, proj_size=width)
    weights = {
        "weight_ih_l0": gates(layer.gates.kernel, 1),
        "weight_hh_l0": gates(layer.recurrent.kernel, 1),
        "bias_ih_l0": gates(layer.gates.bias, 0),
        "bias_hh_l0": torch.zeros(4 * cells),
        "weight_hr_l0": tensor(np.asarray(layer.projection.kernel).T),
    }
    network.load_state_dict(weights)
    return network(x)[0]


def test_encoder(monkeypatch):
    monkeypatch.setattr(recurrent_encoders, "CLIP", 0.0)
    keras.utils.set_random_seed(2)
    size = Size(layers=2, width=24, inner=20)
    encoder = built(recurrent_encoders.elmo_cnn(size, VOCABULARY, FILTERS), name="encoder")
    speller = encoder.embeddings
    for variable in encoder.variables:
        variable.assign(np.asarray(variable) + 0.1 * np.random.default_rng(0).normal(size=variable.shape))
    tokens = np.random.default_rng(1).integers(37, 101, (3, 17)).astype(np.int32)
    with torch.no_grad():
        spelled = symbols((), VOCABULARY.size, VOCABULARY.first)[tokens]  # [B, T, 50]
        z = tensor(speller.letters.table)[torch.tensor(spelled.astype(np.int64))]  # [B, T, 50, 16]
        z = z.reshape(-1, 50, 16).transpose(1, 2)
        pooled = []
        for wide, number in FILTERS:
            layer = getattr(speller, f"filters_{wide}")
            convolution = torch.nn.Conv1d(16, number, wide)
            convolution.weight.copy_(tensor(np.asarray(layer.kernel).transpose(2, 1, 0)))
            convolution.bias.copy_(tensor(layer.bias))
            pooled.append(torch.relu(convolution(z).max(dim=-1).values))
        y = torch.cat(pooled, dim=-1)
        for layer in (speller.highway_0.gates, speller.highway_1.gates):
            gate, new = (y @ tensor(layer.kernel) + tensor(layer.bias)).chunk(2, dim=-1)
            y = torch.sigmoid(gate) * torch.relu(new) + (1 - torch.sigmoid(gate)) * y
        x = (y @ tensor(speller.projection.kernel) + tensor(speller.projection.bias)).reshape(3, 17, 12)
        forward, backward = [x], [x]
        for index in range(2):
            new = recurrent(encoder.forward_stack.members[index], forward[-1])
            forward.append(new + forward[-1] if index else new)
            new = recurrent(encoder.backward_stack.members[index], backward[-1].flip(1)).flip(1)
            backward.append(new + backward[-1] if index else new)
    encoding = encoder({"tokens": tokens})
    for ours, *theirs in zip(encoding.layers, forward, backward, strict=True):
        assert difference(ours, torch.cat(theirs, dim=-1)) < TOLERANCE
