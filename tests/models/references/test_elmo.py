"""ELMo with characters against AllenNLP's, from the letters to the last layer: our weights as a file that it loads."""

import importlib
import json
import sys
from importlib import util
from pathlib import Path
from types import ModuleType

import keras
import numpy as np
import pytest

from ptmbench.bench.adapt.features import Reading
from ptmbench.bench.adapt.settings import Settings
from ptmbench.models.architectures.recurrent_encoders import elmo_cnn
from ptmbench.models.card import Size
from ptmbench.models.layers.recurrent_networks import Bidirectional, built
from ptmbench.models.layers.spelling import symbols
from ptmbench.models.pretrainable import Encoding
from ptmbench.models.tokenizers import Vocabulary
from tests.models.references.common import TOLERANCE, difference, torch

h5py = pytest.importorskip("h5py", reason="the reference needs h5py")

SIZE = Size(layers=2, width=8, inner=5, length=30)
FILTERS = ((1, 2), (2, 3), (7, 4))
WORDS = ("the", "a", "Zoë", "unbelievable", "x" * 60, "y" * 48)
VOCABULARY = Vocabulary(size=37 + len(WORDS), pieces=(*(f"[{number}]" for number in range(37)), *WORDS))
TEXTS = [["the", "Zoë", "unbelievable", "y" * 48, "a"], ["x" * 60, "the"], ["a"]]


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


def written(encoder: Bidirectional, folder: Path) -> tuple[str, str]:
    """The options and the weights of ``encoder``, in the files that the authors published theirs in."""
    char = {"activation": "relu", "embedding": {"dim": 16}, "filters": FILTERS, "n_highway": 2}
    char |= {"max_characters_per_token": 50, "n_characters": 261}
    lstm = {"cell_clip": 3, "proj_clip": 3, "dim": SIZE.inner, "n_layers": 2, "projection_dim": encoder.state}
    (folder / "options.json").write_text(json.dumps({"char_cnn": char, "lstm": lstm | {"use_skip_connections": True}}))
    speller = encoder.embeddings
    letters, special = np.asarray(speller.letters.table), VOCABULARY.first
    ends = [256 + VOCABULARY.cls, 256 + VOCABULARY.sep, *range(256 + special, 256 + special + 3)]
    arrays = {"char_embed": letters[[*range(256), *ends]]}
    for index, (wide, _) in enumerate(FILTERS):
        layer = getattr(speller, f"filters_{wide}")
        arrays[f"CNN/W_cnn_{index}"], arrays[f"CNN/b_cnn_{index}"] = np.asarray(layer.kernel)[None], layer.bias
    for index, layer in enumerate((speller.highway_0.gates, speller.highway_1.gates)):
        for kind, value in (("W", layer.kernel), ("b", layer.bias)):
            gate, new = np.split(np.asarray(value), 2, axis=-1)
            arrays[f"CNN_high_{index}/{kind}_carry"], arrays[f"CNN_high_{index}/{kind}_transform"] = gate, new
    arrays |= {"CNN_proj/W_proj": speller.projection.kernel, "CNN_proj/b_proj": speller.projection.bias}
    for direction, layers in enumerate((encoder.forward_stack, encoder.backward_stack)):
        for index, layer in enumerate(layers):
            place = f"RNN_{direction}/RNN/MultiRNNCell/Cell{index}/LSTMCell"
            arrays[f"{place}/W_0"] = gates(np.concatenate([layer.gates.kernel, layer.recurrent.kernel]))
            arrays[f"{place}/B"] = gates(np.asarray(layer.gates.bias)) - np.repeat([0, 0, 1, 0], SIZE.inner)
            arrays[f"{place}/W_P_0"] = layer.projection.kernel
    with h5py.File(folder / "weights.hdf5", "w") as file:
        for name, value in arrays.items():
            file[name] = np.asarray(value, np.float32)
    return str(folder / "options.json"), str(folder / "weights.hdf5")


def gates(value: np.ndarray) -> np.ndarray:
    """From g, i, f, o to the i, g, f, o of the file, which leaves the 1 out that is added to f."""
    g, i, f, o = np.split(value, 4, axis=-1)
    return np.concatenate([i, g, f, o], axis=-1)


def test_all_layers_are_allennlps(elmo, tmp_path):
    """Weights are large enough for cells and projections to reach their bounds. The sentence's ends, which are added
    there, are our [CLS] and [SEP]; padding, which is 0 there, is not looked at."""
    keras.utils.set_random_seed(1)
    ours = built(elmo_cnn(SIZE, VOCABULARY, FILTERS), name="encoder")
    ours.dropout = 0.0
    rng = np.random.default_rng(0)
    for variable in ours.variables:
        wide = 2.0 if "/projection/" in variable.path and "embeddings" not in variable.path else 0.5
        variable.assign(rng.normal(0, wide, variable.shape))
    theirs = elmo._ElmoBiLm(*written(ours, tmp_path)).eval()
    mapper = importlib.import_module("allennlp.data.token_indexers.elmo_indexer").ELMoCharacterMapper()
    spelled, tokens = np.zeros((3, 5, 50), np.int64), np.zeros((3, 7), np.int32)
    for row, text in enumerate(TEXTS):
        spelled[row, : len(text)] = [mapper.convert_word_to_char_ids(word) for word in text]
        ids = [VOCABULARY.first + WORDS.index(word) for word in text]
        tokens[row, : len(ids) + 2] = [VOCABULARY.cls, *ids, VOCABULARY.sep]
        lie = symbols(VOCABULARY.pieces or (), VOCABULARY.size, VOCABULARY.first)[ids]
        assert np.array_equal(np.where(lie > 255, lie - VOCABULARY.first + 2, lie) + 1, spelled[row, : len(text)])
    with torch.no_grad():
        found = theirs(torch.tensor(spelled))
    encoding = ours({"tokens": tokens})
    assert np.array_equal(found["mask"].numpy(), tokens > 0) and len(found["activations"]) == len(encoding.layers) == 3
    for mine, other in zip(encoding.layers, found["activations"], strict=True):
        assert difference(mine, other, tokens > 0) < TOLERANCE
    assert (np.abs(np.asarray(encoding.layers[1])[tokens > 0]) == 3.0).any()


def test_the_mix_of_layers_is_allennlps(elmo):
    """Equation 1, of layers with mean 0 and deviation 1: ours are normalised vector by vector before, there not at all,
    or, if asked for, over all vectors of a layer together."""
    mix = importlib.import_module("allennlp.modules.scalar_mix").ScalarMix(3)
    rng = np.random.default_rng(0)
    layers = rng.normal(size=(3, 2, 4, 8))
    layers -= layers.mean(axis=-1, keepdims=True)
    layers = (layers / layers.std(axis=-1, keepdims=True)).astype(np.float32)
    reading = Reading(built(elmo_cnn(SIZE, VOCABULARY, FILTERS), name="encoder"), Settings(layers="all"))
    reading.mix.assign(rng.normal(size=3))
    reading.gain.assign(1.7)
    for scalar, value in zip(mix.scalar_parameters, np.asarray(reading.mix), strict=True):
        scalar.data.fill_(float(value))
    mix.gamma.data.fill_(1.7)
    ids = np.ones((2, 4), np.int32)
    ours = reading(Encoding(tokens=None, pooled=None, layers=tuple(layers)), {"tokens": ids, "segments": 0 * ids})
    assert difference(ours.tokens, mix([torch.tensor(layer) for layer in layers])) < TOLERANCE
