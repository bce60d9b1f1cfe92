"""A pre-trained encoder as a `keras.Model`, for programs that continue in plain Keras. `ptmbench.load` makes it.

It has the network of the checkpoint without the pre-training heads, and the tokenizer, which is saved with it.
"""

import importlib
import pkgutil
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from ptmbench.bench.adapt.heads import InputRow, layout, stack
from ptmbench.bench.engine import networks
from ptmbench.bench.engine.checkpoint import MANIFEST
from ptmbench.bench.errors import EnvironmentProblem, UsageError
from ptmbench.bench.runs.stages import pretrained_in
from ptmbench.models import layers
from ptmbench.models.card import Size
from ptmbench.models.channels import CHANNELS
from ptmbench.models.layers.core import Linear
from ptmbench.models.text.tokenizers import Tokenizer

MASK = "mask"
SUFFIX = ".keras"


@keras.saving.register_keras_serializable(package="ptmbench")
class PretrainedEncoder(keras.Model):
    """Maps token ids int32 [B, T] to a dict of vectors: "tokens" float32 [B, T, D], and "pooled" [B, D], pooled as in
    the model's paper (first token, last token, mean ...).

    Ids come from ``tokenizer``, with special tokens (`tokenize`); 0 is padding, on the right. Instead of ids, the input
    may be a dict with "tokens" and any of

    - "segments" int32 [B, T]: 0 for the first text, 1 for the second; zeros when absent,
    - "mask" [B, T]: 0 or False for padding whose ids are not 0,
    - other channels that the encoder reads (`ptmbench.models.channels`).

    In training, the dropout rate is ``model.encoder.dropout``, and its random numbers follow from ``seed``. Raises
    `ValueError` for inputs that are longer than ``model.encoder.length``.
    """

    def __init__(
        self,
        encoder: keras.layers.Layer,
        tokenizer: Tokenizer,
        *,
        lora_rank: int | None = None,
        seed: int = 0,
        **kwargs: Any,
    ):
        super().__init__(**kwargs)
        if not encoder.built:
            encoder.build()
        self.encoder, self.tokenizer, self.lora_rank = encoder, tokenizer, lora_rank
        self.seeds = keras.random.SeedGenerator(seed)
        self.built = True
        if lora_rank:
            self._freeze()

    def call(self, inputs: Any, training: Any = None) -> dict[str, tf.Tensor]:
        given = dict(inputs) if isinstance(inputs, Mapping) else {"tokens": inputs}
        if unknown := [name for name in given if name != MASK and name not in CHANNELS] or "tokens" not in given:
            wrong = "no 'tokens'" if unknown is True else f"the unknown name '{unknown[0]}'"
            raise ValueError(f"The inputs have {wrong}. Give tokens, and if needed segments, mask or other channels.")
        mask = given.pop(MASK, None)
        batch = {name: tf.cast(value, CHANNELS[name].dtype) for name, value in given.items()}
        if mask is not None:
            batch["tokens"] *= tf.cast(tf.cast(mask, tf.bool), tf.int32)
        seed = tf.cast(self.seeds.next(), tf.int32) if training else None
        found = self.encoder(batch, seed=seed)
        return {"tokens": found.tokens, "pooled": found.pooled}

    def tokenize(
        self, texts: Sequence[str], pairs: Sequence[str] | None = None, length: int | None = None
    ) -> dict[str, np.ndarray]:
        """Converts ``texts`` to inputs: "tokens" and "segments", int32 [N, T], laid out as in pre-training.

        ``pairs`` are second texts. Rows are padded to the longest row, or to ``length``. Rows that are longer than
        ``length``, or than the encoder reads, are truncated at the end of the longer text.
        """
        for name, value in (("texts", texts), ("pairs", pairs)):
            if isinstance(value, str):
                raise UsageError(f"{name} is a sequence of texts, not one text. Give [{value!r:.40}].")
        if pairs is not None and len(pairs) != len(texts):
            raise UsageError(f"There are {len(texts)} texts and {len(pairs)} pairs. Give one pair for each text.")
        if length is not None and not 0 < length <= self.encoder.length:
            raise UsageError(f"length is a number from 1 to {self.encoder.length}, the longest input, not {length}.")
        if not len(texts):
            return {name: np.zeros((0, length or 0), np.int32) for name in ("tokens", "segments")}
        sides = [self.tokenizer.encode(list(side)) for side in (texts, pairs) if side is not None]
        most = length or self.encoder.length
        rows = [
            InputRow(layout(self.tokenizer.vocabulary, parts, most), n)
            for n, parts in enumerate(zip(*sides, strict=True))
        ]
        batch = stack(rows, multiple=1)
        more = max(0, (length or 0) - batch["tokens"].shape[1])
        return {name: np.pad(array, ((0, 0), (0, more))) for name, array in batch.items()}

    def quantize(
        self, mode: Any = None, config: Any = None, filters: str | Sequence[str] | Callable | None = None, **kwargs: Any
    ) -> None:
        """Like `keras.Model.quantize`, but by default only for linear layers. Keras would warn about the others."""
        super().quantize(mode, config=config, filters=filters or _multiplies, **kwargs)

    def enable_lora(self, rank: int) -> None:
        """Adds low-rank updates (Hu et al., 2022, section 4.1) to every kernel and freezes all other variables.

        Raises `UsageError` for a model that has no kernels or already has low-rank updates.
        """
        kernels = [one for one in self.encoder._flatten_layers() if _multiplies(one)]
        if self.lora_rank or not kernels:
            wrong = f"{self.name} has low-rank updates already" if self.lora_rank else f"{self.name} has no kernels"
            raise UsageError(f"{wrong}, so there is nothing that enable_lora could change.")
        for one in kernels:
            one.enable_lora(rank)
        self.lora_rank = rank
        self._freeze()

    def _freeze(self) -> None:
        for variable in self.encoder.variables:
            variable.trainable = variable.name.startswith("lora_kernel")

    def export(
        self,
        filepath: Any,
        format: str = "tf_saved_model",
        verbose: Any = None,
        input_signature: Any = None,
        **kwargs: Any,
    ) -> None:
        """Like `keras.Model.export`. By default, ``input_signature`` is a dict of "tokens" and "segments", int32
        [B, T]."""
        if input_signature is None:
            spec = keras.InputSpec(dtype="int32", shape=(None, None))
            input_signature = [{"tokens": spec, "segments": spec}]
        super().export(filepath, format=format, verbose=verbose, input_signature=input_signature, **kwargs)

    def get_config(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "encoder": keras.saving.serialize_keras_object(self.encoder),
            "tokenizer": self.tokenizer.to_json(),
            "lora_rank": self.lora_rank,
        }

    @classmethod
    def from_config(cls, config: dict[str, Any], custom_objects: Any = None) -> "PretrainedEncoder":
        encoder = keras.saving.deserialize_keras_object(config["encoder"], custom_objects=custom_objects)
        tokenizer = Tokenizer.from_json(config["tokenizer"], "The saved model's tokenizer")
        return cls(encoder, tokenizer, lora_rank=config["lora_rank"], name=config["name"])


def load(source: Path) -> keras.Model:
    """Loads the pre-trained encoder in the checkpoint ``source``, or the model in a .keras file ``source``, which may
    contain such an encoder.

    Raises `CheckpointError` for a damaged checkpoint or one of an adapted model, and `EnvironmentProblem` for a file
    that cannot be read.
    """
    if source.suffix == SUFFIX and not (source / MANIFEST).exists():
        return _saved(source)
    found = pretrained_in(source)
    shape, tokenizer = Size(**found.about["shape"]), Tokenizer.load(found.path("tokenizer.json"))
    network = networks.build(found.about["model"], shape, tokenizer, 0)
    networks.assign(network.loss.variables, found.arrays())
    return PretrainedEncoder(network.encoder, tokenizer, name=found.about["model"])


def _saved(file: Path) -> keras.Model:
    for module in pkgutil.iter_modules(layers.__path__):  # the loader only finds imported classes
        importlib.import_module(f"{layers.__name__}.{module.name}")
    if not file.is_file():
        raise EnvironmentProblem(f"There is no file {file}. Give a file that `model.save` wrote, or a checkpoint.")
    try:
        return keras.saving.load_model(file, safe_mode=True)
    except (ValueError, TypeError, OSError, KeyError) as error:
        raise EnvironmentProblem(f"{file} cannot be read as a Keras model: {str(error).splitlines()[0]}") from error


def _multiplies(layer: Any) -> bool:
    """Whether ``layer`` is a linear layer, which multiplies by a kernel."""
    return isinstance(layer, Linear)
