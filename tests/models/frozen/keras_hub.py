"""Imports presets of keras-hub and computes the outputs of our networks for two rows of tokens.

Besides config.json and the files of the tokenizer, a preset has model.weights.h5. The names of its data sets are the
seeds of its weights.
"""

from collections.abc import Callable, Mapping
from pathlib import Path
from tempfile import TemporaryDirectory

import h5py
import numpy as np

from tests.models.frozen import Frozen
from tests.models.frozen.networks import loaded

NAMES = ("albert", "bart", "distilbert", "gpt2", "roberta", "t5")
WEIGHTS = "model.weights.h5"


def files(path: Path) -> dict[str, np.ndarray]:
    """Returns the contents of the files of the preset in ``path``, without its weights, as bytes by relative path."""
    result = [path / "config.json", path / "tokenizer.json", *sorted((path / "assets" / "tokenizer").iterdir())]
    contents = {str(file.relative_to(path)): file.read_bytes() for file in result if file.is_file()}
    return {name: np.frombuffer(content, np.uint8) for name, content in contents.items()}


def write(kept: Mapping[str, np.ndarray], path: Path) -> None:
    """Writes the result of `files` below ``path``."""
    for name, content in kept.items():
        (path / name).parent.mkdir(parents=True, exist_ok=True)
        (path / name).write_bytes(content.tobytes())


def rows(pieces: int) -> dict[str, np.ndarray]:
    """Returns ``token_ids``, ``padding_mask`` and ``segment_ids`` [2, 9] for keras-hub.

    The ids are below ``pieces``. The second row has 6 tokens and padding.
    """
    present = np.arange(9) < np.array([[9], [6]])
    tokens = np.random.default_rng(0).integers(5, pieces, (2, 9)) * present
    segments = (np.arange(9) > 3) & present
    parts = {"token_ids": tokens, "padding_mask": present, "segment_ids": segments}
    return {name: part.astype(np.int32) for name, part in parts.items()}


def vectors(frozen: Frozen) -> dict[str, np.ndarray]:
    """Computes the outputs of our network. Padding is zeros.

    hidden  states of the encoder [2, 9, D]
    pooled  pooled vectors [2, D], if there is a pooler
    logits  [2, 9, V] by the ids of keras-hub, if there is a decoder
    """
    from ptmbench.models.published import _vocabulary

    with TemporaryDirectory() as folder:
        path = Path(folder)
        write(frozen.given, path)
        with h5py.File(path / WEIGHTS, "w") as file:
            for name, value in frozen.weights.items():
                file[name] = value
        built, read = loaded(path)
    places, pieces = _vocabulary.permutation(read.tokenizer)
    ours = np.full(pieces, -1)  # by the ids of keras-hub
    for number in range(len(places)):
        if number not in read.tokenizer.vocabulary.absent:
            ours[places[number]] = number
    given = rows(pieces)
    present = given["padding_mask"][..., None]
    tokens = (ours[given["token_ids"]] * given["padding_mask"]).astype(np.int32)
    encoding = built.encoder({"tokens": tokens, "segments": given["segment_ids"]})
    result = {"hidden": np.asarray(encoding.tokens) * present}
    if read.model == "albert":
        result["pooled"] = np.asarray(encoding.pooled)
    if read.model in ("bart", "t5"):
        result["logits"] = np.asarray(built.decode({"tokens": tokens, "targets": tokens}))[..., ours] * present
    return result


OURS: dict[str, Callable[[Frozen], dict[str, np.ndarray]]] = {f"keras_hub_{name}": vectors for name in NAMES}
