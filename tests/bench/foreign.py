"""Makes folders in the layouts of published models, as third-party tools write them, with random weights."""

import json
from pathlib import Path

import numpy as np

from ptmbench.bench.__main__ import main
from ptmbench.bench.engine import networks
from ptmbench.models import published
from ptmbench.models.card import Size
from ptmbench.models.text.tokenizers import Tokenizer
from tests.models.published import made

SIZE = Size(layers=2, width=16, heads=2, inner=64, length=24)


def foreign(name: str, path: Path, kind: str = "wordpiece", **changes) -> dict[str, np.ndarray]:
    """Writes a folder with random weights in the third-party layout of the table ``name``. Returns its arrays."""
    from safetensors.numpy import save_file

    foreign_tokenizer = made.KINDS[kind](path)
    size = changes.pop("size", SIZE)
    table = published.load(name)
    own_tokenizer = Tokenizer.train("wordpiece", made.TEXT, 200)
    config = table.config(size, own_tokenizer.vocabulary) | {"vocab_size": foreign_tokenizer.get_vocab_size()} | changes
    network = networks.build(name, size, own_tokenizer, 0)
    shapes = {variable.path: tuple(variable.shape) for variable in network.loss.variables}
    arrays, rng = {}, np.random.default_rng(0)
    for weight in table.weights(size):
        shape = shapes[weight.ours]
        if weight.vocabulary:
            shape = (foreign_tokenizer.get_vocab_size(), *shape[1:])
        written_arrays = weight.write(rng.normal(size=shape).astype(np.float32))
        arrays |= {key: value for key, value in written_arrays.items() if key not in weight.copies}
    save_file(arrays, path / "model.safetensors")
    (path / "config.json").write_text(json.dumps(config))
    return arrays


def run(*arguments) -> int:
    return main([str(argument) for argument in arguments])
