"""Compares MultiFiT's layers with fastai 1.0.61, which its authors used. Later releases have no QRNN."""

import sys
from pathlib import Path
from types import ModuleType

import pytest

from tests.models.frozen import weight
from tests.models.frozen.recurrent import PADDED, QRNN, V
from tests.models.references.common import seeded, torch

fastai = pytest.importorskip("fastai", reason="the reference needs fastai 1.0.61")
FOLDER = Path(fastai.__file__).parent
if not (FOLDER / "text/models/qrnn.py").exists():
    pytest.skip("this release of fastai has no QRNN: use 1.0.61", allow_module_level=True)


@pytest.fixture
def qrnn(monkeypatch):
    """Imports fastai's QRNN module alone, without what its packages import (spaCy and everything for training)."""
    for name in ("fastai.text", "fastai.text.models"):
        package = ModuleType(name)
        package.__path__ = [str(FOLDER.joinpath(*name.split(".")[1:]))]
        monkeypatch.setitem(sys.modules, name, package)
    yield pytest.importorskip("fastai.text.models.qrnn", reason="fastai 1 needs setuptools before 81 and more")
    sys.modules.pop("fastai.text.models.qrnn")


def test_layers_are_fastais(qrnn, hold):
    """fastai's zoneout is not used."""
    reference = qrnn.QRNN(QRNN.width, QRNN.inner, n_layers=QRNN.layers).eval()
    shapes = seeded(reference, deviation=0.3) | {"tokens": (V, QRNN.width)}
    table = weight("tokens", shapes["tokens"], 0.3)
    with torch.no_grad():
        tokens = reference(torch.tensor(table[PADDED]))[0].numpy() * (PADDED > 0)[..., None]
    last = tokens[range(3), (PADDED > 0).sum(axis=1) - 1]
    about = f"fastai {fastai.__version__}, torch {torch.__version__}"
    hold("qrnn", about, shapes, {"tokens": tokens, "pooled": last}, deviation=0.3)
