"""Compares character-based ELMo with AllenNLP's in all layers, with weights in a file that AllenNLP loads."""

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
    """A module whose attributes are all classes that do nothing, for modules that ELMo imports but does not use."""

    def __getattr__(self, name: str) -> type:
        if name.startswith("__"):
            raise AttributeError(name)
        return type(name, (), {"__init__": lambda *_, **__: None, "register": lambda *_, **__: lambda kind: kind})


@pytest.fixture
def elmo(monkeypatch):
    """Imports AllenNLP's ELMo module alone. The whole package requires an older torch, spaCy and other packages."""
    result = util.find_spec("allennlp")
    if result is None:
        pytest.skip("the reference needs allennlp (--no-deps is enough)")
    root = Path(result.submodule_search_locations[0])
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
"""The standard deviation of weights, large enough for cells and projections to be clipped."""


def write_files(shapes: dict, folder: Path) -> tuple[str, str]:
    """Writes options and weights in the formats of the authors' published files. Returns the two paths."""
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
    """Our [CLS] and [SEP] are the sentence boundaries that AllenNLP adds. Vectors of padding are not compared."""
    shapes = mappings.elmo_shapes(elmo_network())
    theirs = elmo._ElmoBiLm(*write_files(shapes, tmp_path)).eval()
    mapper = importlib.import_module("allennlp.data.token_indexers.elmo_indexer").ELMoCharacterMapper()
    spelled, tokens = np.zeros((3, 5, 50), np.int64), elmo_tokens()
    for row, text in enumerate(TEXTS):
        spelled[row, : len(text)] = [mapper.convert_word_to_char_ids(word) for word in text]
        codes = symbols(VOCABULARY.pieces, VOCABULARY.size, VOCABULARY.first)[tokens[row, 1 : len(text) + 1]]
        assert np.array_equal(np.where(codes > 255, codes - VOCABULARY.first + 2, codes) + 1, spelled[row, : len(text)])
    with torch.no_grad():
        result = theirs(torch.tensor(spelled))
    assert np.array_equal(result["mask"].numpy(), tokens > 0)
    layers = np.stack([layer.numpy() for layer in result["activations"]]) * (tokens > 0)[..., None]
    assert (np.abs(layers[1]) == 3.0).any()
    hold("elmo", about(), shapes, {"layers": layers}, deviation=DEVIATION)


def test_the_mix_of_layers_is_allennlps(elmo, hold):
    """Equation 1, for layers that normalisation does not change."""
    mix = importlib.import_module("allennlp.modules.scalar_mix").ScalarMix(3)
    scalars = weight("scalars", (3,), DEVIATION)
    for scalar, value in zip(mix.scalar_parameters, scalars, strict=True):
        scalar.data.fill_(float(value))
    mix.gamma.data.fill_(1.7)
    mixed = mix([torch.tensor(layer) for layer in elmo_mix_layers()]).detach()
    hold("elmo_mix", about(), {"scalars": (3,)}, {"mixed": mixed}, deviation=DEVIATION)
