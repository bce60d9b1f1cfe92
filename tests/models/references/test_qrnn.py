"""MultiFiT's layers against those of fastai 1.0.61, which its authors used; later releases have none."""

import sys
from pathlib import Path
from types import ModuleType

import keras
import numpy as np
import pytest
import tensorflow as tf

from ptmbench.models.architectures.recurrent_decoders import qrnn as qrnn_config
from ptmbench.models.card import Size
from ptmbench.models.layers.recurrent_networks import built
from tests.models.references.common import TOLERANCE, difference, torch

fastai = pytest.importorskip("fastai", reason="the reference needs fastai 1.0.61")
FOLDER = Path(fastai.__file__).parent
if not (FOLDER / "text/models/qrnn.py").exists():
    pytest.skip("this release of fastai has no QRNN: use 1.0.61", allow_module_level=True)


@pytest.fixture
def qrnn(monkeypatch):
    """fastai's module, without what its packages import beside it (spaCy and all that learns)."""
    for name in ("fastai.text", "fastai.text.models"):
        package = ModuleType(name)
        package.__path__ = [str(FOLDER.joinpath(*name.split(".")[1:]))]
        monkeypatch.setitem(sys.modules, name, package)
    yield pytest.importorskip("fastai.text.models.qrnn", reason="fastai 1 needs setuptools before 81 and more")
    sys.modules.pop("fastai.text.models.qrnn")


def tensor(value) -> "torch.Tensor":
    return torch.tensor(np.array(value, np.float32))


def test_layers_are_fastais(qrnn):
    """The window is 2 in the first layer, 1 above. fastai's gate f says what comes in, where ours, as the paper's, says
    what stays; the token before stands behind the token there. It has zoneout, which is not used here."""
    keras.utils.set_random_seed(1)
    network = built(qrnn_config(Size(layers=3, width=12, inner=12, length=40), 60), name="encoder")
    network.dropout = 0.0
    for variable in network.variables:
        variable.assign(np.asarray(variable) + 0.3 * np.random.default_rng(0).normal(size=variable.shape))
    peer = qrnn.QRNN(12, 12, n_layers=3).eval()
    for layer, there in zip(network.stack, peer.layers, strict=True):
        kernel, bias = (np.array(value) for value in (layer.gates.kernel, layer.gates.bias))
        kernel[:, 12:24], bias[12:24] = -kernel[:, 12:24], -bias[12:24]
        kernel = np.concatenate(np.split(kernel, there.window)[::-1])
        there.linear.load_state_dict({"weight": tensor(kernel.T), "bias": tensor(bias)})
    tokens = np.random.default_rng(1).integers(1, 60, (3, 19)).astype(np.int32)
    tokens[1, 11:], tokens[2, 1:] = 0, 0
    with torch.no_grad():
        expected, _ = peer(tensor(tf.gather(network.token_embedding, tokens)))
    encoding = network({"tokens": tokens})
    assert difference(encoding.tokens, expected, tokens > 0) < TOLERANCE
    for row, last in enumerate((18, 10, 0)):
        assert difference(encoding.pooled[row], expected[row, last]) < TOLERANCE
