"""Helpers of the comparisons with `transformers`: references with random weights, and our models with the same ones."""

import numpy as np
import pytest

from ptmbench import models
from ptmbench.models import published
from ptmbench.models.card import Size
from ptmbench.models.pretrainable import Pretrainable
from ptmbench.models.text.tokenizers import Vocabulary
from tests.models.frozen import TOLERANCE, networks, weight
from tests.models.references.differences import noted

torch = pytest.importorskip("torch", reason="the reference needs torch")
transformers = pytest.importorskip("transformers", reason="the reference needs transformers")

ABOUT = f"transformers {transformers.__version__}, torch {torch.__version__}"
"""The packages that compute the stored arrays."""
SIZE = Size(layers=2, width=32, heads=4, inner=64, length=160)
VOCABULARY = Vocabulary(size=101)
_DROPOUT_SETTINGS = (
    "hidden_dropout_prob",
    "attention_probs_dropout_prob",
    "dropout_rate",
    "attn_pdrop",
    "embd_pdrop",
    "resid_pdrop",
    "dropout",
    "attention_dropout",
    "activation_dropout",
    "classifier_dropout_prob",
)


def batch(length: int = 150) -> dict[str, np.ndarray]:
    """Returns two rows of two segments. The second row has 110 tokens and padding."""
    rng = np.random.default_rng(0)
    tokens = rng.integers(1, VOCABULARY.size, (2, length)).astype(np.int32)
    tokens[1, 110:] = 0
    segments = np.zeros_like(tokens)
    segments[:, 60:] = 1
    return {"tokens": tokens, "segments": segments * (tokens > 0)}


def long(array: np.ndarray) -> "torch.Tensor":
    """Returns an integer array as the int64 tensor that references expect."""
    return torch.tensor(np.asarray(array).astype(np.int64))


def reference(kind, config, **settings):
    """Returns a `transformers` model of class ``kind`` without dropout.

    All weights are random, also norms and biases.
    """
    torch.manual_seed(0)
    made = config(**settings)
    for name in _DROPOUT_SETTINGS:
        if hasattr(made, name):
            setattr(made, name, 0.0)
    network = kind(made).eval()
    with torch.no_grad():
        for weight in network.parameters():
            weight.add_(0.1 * torch.randn_like(weight))
    return network


def seeded(network, prefix: str = "", deviation: float = 0.1) -> dict:
    """Turns dropout off and draws each weight of ``network`` with ``prefix`` and its name as the seed.

    Returns the shapes by these names.
    """
    shapes = {}
    with torch.no_grad():
        for key, parameter in network.eval().named_parameters():
            if parameter.requires_grad:
                shapes[prefix + key] = tuple(parameter.shape)
                parameter.copy_(torch.tensor(weight(prefix + key, shapes[prefix + key], deviation)))
    return shapes


def ours(name: str, network: "torch.nn.Module", size: Size = SIZE) -> Pretrainable:
    """Returns our model ``name`` with the weights of ``network``, by the table in ``models/published``.

    Every variable must be in the table, and every array of the table in the network.
    """
    arrays = {key: value.detach().numpy() for key, value in network.state_dict().items()}
    table = published.load(name)
    built = models.load(name).build(size, VOCABULARY)
    assert {entry.ours for entry in table.weights(size)} == {variable.path for variable in built.loss.variables}
    assert not networks.assign(built, name, arrays, size)
    return built


def difference(ours, theirs, where: np.ndarray | None = None) -> float:
    """Returns the largest absolute difference, at all positions or where ``where`` [B, T] is True."""
    gap = np.abs(np.asarray(ours) - theirs.detach().numpy())
    return noted("vectors", float((gap if where is None else gap[where]).max()))


def check_loss(ours, theirs, allowed: float = TOLERANCE) -> None:
    """Checks that a loss is within ``allowed`` of the reference's."""
    gap = noted("loss", abs(float(ours) - theirs.item()))
    assert gap <= allowed, f"{float(ours)} here, {theirs.item()} there"


def check_layers(encoding, hidden_states, present: np.ndarray) -> None:
    """Checks every layer of ``encoding`` against the reference where ``present`` [B, T] is True, with `TOLERANCE`."""
    gaps = [difference(*pair, present) for pair in zip(encoding.layers, hidden_states, strict=True)]
    assert max(gaps) < TOLERANCE, gaps
