"""ELMo with characters against AllenNLP's, from the letters to the last layer: weights in a file that it loads."""

import importlib
import json
import sys
from importlib import metadata, util
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

from ptmbench.models.layers.spelling import symbols
from tests.models.frozen import mappings, weight
from tests.models.frozen.recurrent import (
    ELMO,
    FILTERS,
    TEXTS,
    VOCABULARY,
    elmo_mix_layers,
    elmo_network,
    elmo_tokens,
)
from tests.models.references.common import torch

h5py = pytest.importorskip("h5py", reason="the reference needs h5py")


class Blank(ModuleType):
    """Whatever is asked of it is a class that does nothing: what ELMo's modules import, and never compute with."""

    def __getattr__(self, name: str) -> type:
        if name.startswith("__"):
            raise AttributeError(name)
        return type(name, (), {"__init__": lambda *_, **__: None, "register": lambda *_, **__: lambda kind: kind})


@pytest.fixture
def elmo(monkeypatch):
    """AllenNLP's module of ELMo. The package as a whole wants an older torch, spaCy and more, and is not imported."""
    found = util.find_spec("allennlp")
    if found is None:
        pytest.skip("the reference needs allennlp (--no-deps is enough)")
    root = Path(found.submodule_search_locations[0])
    before = set(sys.modules)
    for name in ("", ".common", ".data", ".data.token_indexers", ".modules", ".nn"):
        package = Blank(f"allennlp{name}")
        package.__path__ = [str(root.joinpath(*name.split(".")))]
        monkeypatch.setitem(sys.modules, package.__name__, package)
    blank = ("common.util", "nn.initializers", "data.instance", "data.tokenizers", "data.tokenizers.token_class")
    blank += ("data.vocabulary", "data.batch", "data.fields", "data.token_indexers.token_indexer", "common.file_utils")
    for name in blank:
        monkeypatch.setitem(sys.modules, f"allennlp.{name}", Blank(f"allennlp.{name}"))
    sys.modules["allennlp.common.file_utils"].cached_path = lambda path: path
    yield importlib.import_module("allennlp.modules.elmo")
    for name in set(sys.modules) - before:
        if name.startswith("allennlp"):
            sys.modules.pop(name)


DEVIATION = 1.5
"""Weights are large enough for cells and projections to reach their bounds."""


def written(shapes: dict, folder: Path) -> tuple[str, str]:
    """The options and the weights, in the files that the authors published theirs in."""
    char = {"activation": "relu", "embedding": {"dim": 16}, "filters": FILTERS, "n_highway": 2}
    char |= {"max_characters_per_token": 50, "n_characters": 261}
    lstm = {"cell_clip": 3, "proj_clip": 3, "dim": ELMO.inner, "n_layers": 2, "projection_dim": ELMO.width // 2}
    (folder / "options.json").write_text(json.dumps({"char_cnn": char, "lstm": lstm | {"use_skip_connections": True}}))
    with h5py.File(folder / "weights.hdf5", "w") as file:
        for name, shape in shapes.items():
            file[name] = weight(name, shape, DEVIATION)
    return str(folder / "options.json"), str(folder / "weights.hdf5")


def about() -> str:
    return f"allennlp {metadata.version('allennlp')}, torch {torch.__version__}"


def test_all_layers_are_allennlps(elmo, tmp_path, hold):
    """The sentence's ends, which are added there, are our [CLS] and [SEP]; padding, which is 0 there, is not looked
    at."""
    shapes = mappings.elmo_shapes(elmo_network())
    theirs = elmo._ElmoBiLm(*written(shapes, tmp_path)).eval()
    mapper = importlib.import_module("allennlp.data.token_indexers.elmo_indexer").ELMoCharacterMapper()
    spelled, tokens = np.zeros((3, 5, 50), np.int64), elmo_tokens()
    for row, text in enumerate(TEXTS):
        spelled[row, : len(text)] = [mapper.convert_word_to_char_ids(word) for word in text]
        lie = symbols(VOCABULARY.pieces, VOCABULARY.size, VOCABULARY.first)[tokens[row, 1 : len(text) + 1]]
        assert np.array_equal(np.where(lie > 255, lie - VOCABULARY.first + 2, lie) + 1, spelled[row, : len(text)])
    with torch.no_grad():
        found = theirs(torch.tensor(spelled))
    assert np.array_equal(found["mask"].numpy(), tokens > 0)
    layers = np.stack([layer.numpy() for layer in found["activations"]]) * (tokens > 0)[..., None]
    assert (np.abs(layers[1]) == 3.0).any()
    hold("elmo", about(), shapes, {"layers": layers}, deviation=DEVIATION)


def test_the_mix_of_layers_is_allennlps(elmo, hold):
    """Equation 1, of layers that normalising does not change."""
    mix = importlib.import_module("allennlp.modules.scalar_mix").ScalarMix(3)
    scalars = weight("scalars", (3,), DEVIATION)
    for scalar, value in zip(mix.scalar_parameters, scalars, strict=True):
        scalar.data.fill_(float(value))
    mix.gamma.data.fill_(1.7)
    mixed = mix([torch.tensor(layer) for layer in elmo_mix_layers()]).detach()
    hold("elmo_mix", about(), {"scalars": (3,)}, {"mixed": mixed}, deviation=DEVIATION)
