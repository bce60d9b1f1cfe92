"""The base class of all layers, and the smallest layers: a product, a table, a norm.

Every layer is built from its configuration (`models.layers.config`), owns its weights under their plain names
("kernel", "bias", "scale", "table") and calls the layers inside it. Activations have the shape [N, D], N = B * T.

Extensions attach at *seams*, the named places that a layer lists in ``SEAMS``. After ``layer.attach("kernel", mask)``
the layer calls ``mask`` with its kernel and uses the result in place of the kernel. An extension is a Keras layer. Its
weights become weights of the layer that it is attached to: they are trained, saved and loaded with it.
"""

import gc
import inspect
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from ptmbench.models.layers.config import (
    ONES,
    ZEROS,
    Config,
    LinearConfig,
    NormConfig,
    OutputConfig,
    Start,
    TableConfig,
    from_dict,
)
from ptmbench.models.layers.operations import dropout, layer_norm, rematerialises, rms_norm
from ptmbench.models.layers.products import product


def sinusoids(dims: tuple[int, int], dtype: Any = None, deviation: float = 0.04) -> tf.Tensor:
    """Initial vectors [T, D] of learned positions: those of Vaswani et al. (2017), section 3.5. The default
    ``deviation`` is twice that of BERT's initial weights.

    Random vectors tell neighbours apart only after each of them has been learnt separately. Until an encoder can attend
    to a word's neighbours, MLM learns no more than the frequencies of words. BERT-mini (B 16, T 32, rate 1e-3) after
    0.84M tokens of novels and wikitext-2: loss 7.0 from random positions (6.9 is the unigram level), 6.3 from these.
    """
    length, width = dims
    angle = np.arange(length)[:, None] / 10_000 ** (np.arange(0, width, 2) / width)  # [T, D / 2]
    waves = np.stack([np.sin(angle), np.cos(angle)], axis=-1).reshape(length, width)
    return tf.constant(deviation * 2**0.5 * waves, dtype or "float32")


def initializer(start: Start) -> Any:
    """The Keras initialiser that ``start`` describes. Each call makes a new one, so that no two weights are equal."""
    if start.kind == "sinusoids":
        return partial(sinusoids, deviation=start.deviations[0]) if start.deviations else sinusoids
    if not start.deviations:
        return start.kind
    if start.kind == "random_uniform":
        limit = 3**0.5 * start.deviations[0]
        return keras.initializers.RandomUniform(-limit, limit)
    cls = {"truncated_normal": keras.initializers.TruncatedNormal, "random_normal": keras.initializers.RandomNormal}
    if len(start.deviations) == 1:
        return cls[start.kind](stddev=start.deviations[0])

    def blocks(dims: tuple[int, ...], dtype: Any = None) -> tf.Tensor:
        part = (*dims[:-1], dims[-1] // len(start.deviations))
        return tf.concat([cls[start.kind](stddev=one)(part, dtype=dtype) for one in start.deviations], -1)

    return blocks


@dataclass(frozen=True, slots=True)
class Drop:
    """Dropout for a part of a network: the ``rate``, the ``seed`` of the step (None: no dropout), and ``place``, the
    number of the part's first dropout. Seed and number determine the mask."""

    rate: float
    seed: Any
    place: int

    def at(self, offset: int) -> "Drop":
        """The dropout for the part that begins ``offset`` places further."""
        return Drop(self.rate, self.seed, self.place + offset)

    def __call__(self, x: tf.Tensor, offset: int = 0) -> tf.Tensor:
        return dropout(x, self.rate, self.seed, self.place + offset)


@dataclass(frozen=True, slots=True)
class Rows:
    """B and T of vectors [B * T, D], as ints if they are known. This is a class because Keras converts tuples of
    numbers among a layer's arguments to tensors."""

    batch: Any
    tokens: Any


NO_DROP = Drop(0.0, None, 0)


def recomputed(function: Callable, *tensors: tf.Tensor) -> tf.Tensor:
    """Returns ``function(*tensors)``, the result of one of many equal layers.

    While training rematerialises (`rematerialising`), only ``tensors`` are kept for the backward pass, which computes
    the rest again (Chen et al., 2016). Gradients flow to ``tensors`` and to all weights that the function reads.
    """
    return tf.recompute_grad(function)(*tensors) if rematerialises() else function(*tensors)


class Seams:
    """A mixin for Keras layers that are built from a ``config``: places at which extensions attach, and saving."""

    SEAMS: tuple[str, ...] = ()
    """Names of the places at which extensions attach."""
    OTHERS: tuple[str, ...] = ()
    """Names of the attributes with the layers that ``__init__`` takes after the configuration. This layer uses their
    weights."""

    def attach(self, seam: str, extension: keras.layers.Layer) -> None:
        """Attaches ``extension``, which is then called with the tensor (or tensors) at ``seam``, after earlier
        extensions there.

        Attach before tracing: a compiled function keeps its graph. Raises `ValueError` for a seam that the layer does
        not have.
        """
        if seam not in self.SEAMS:
            known = ", ".join(self.SEAMS) or "none"
            raise ValueError(f"{type(self).__name__} '{self.name}' has no seam '{seam}'. Its seams: {known}.")
        locked = self._tracker.locked
        self._tracker.unlock()
        setattr(self, f"{seam}_extensions", [*self.extensions(seam), extension])
        if locked:
            self._tracker.lock()

    def detach(self, seam: str, extension: keras.layers.Layer) -> None:
        """Undoes `attach`. A function that was traced before keeps ``extension``."""
        self._tracker.unlock()
        setattr(self, f"{seam}_extensions", [one for one in self.extensions(seam) if one is not extension])
        self._tracker.untrack(extension)
        self._tracker.lock()

    def extensions(self, seam: str) -> list[keras.layers.Layer]:
        """The extensions at ``seam``."""
        return getattr(self, f"{seam}_extensions", [])

    def through(self, seam: str, x: Any, **context: Any) -> Any:
        """Passes ``x`` through the extensions at ``seam`` and casts their results to its dtype. Each extension also
        gets the items of ``context`` that its ``call`` names."""
        for extension in self.extensions(seam):
            asked = inspect.signature(extension.call).parameters
            given = {name: value for name, value in context.items() if name in asked}
            if extension.built:
                found = extension(x, **given)
            else:  # the paths of its weights begin with this layer's, whatever calls it
                with keras.name_scope(seam, override_parent=self.path):
                    found = extension(x, **given)
            x = tf.nest.map_structure(lambda new, old: tf.cast(new, old.dtype), found, x)
        return x

    def changes(self) -> dict[str, Any]:
        """The changes after construction (extensions), as plain values for `restore`."""
        attached = {
            seam: [keras.saving.serialize_keras_object(one) for one in self.extensions(seam)]
            for seam in self.SEAMS
            if self.extensions(seam)
        }
        return {"extensions": attached} if attached else {}

    def restore(self, changes: Mapping[str, Any], path: str) -> None:
        """Applies the result of `changes` to a layer that is not built yet. The paths of its weights will begin with
        ``path``."""
        for seam, found in changes.get("extensions", {}).items():
            for one in found:
                with keras.name_scope(seam, override_parent=path):
                    self.attach(seam, keras.saving.deserialize_keras_object(one))

    def get_config(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "dtype": keras.saving.serialize_keras_object(self.dtype_policy),
            "config": self.config.to_dict(),
            "others": [keras.saving.serialize_keras_object(getattr(self, name)) for name in self.OTHERS],
            "changes": self.changes(),
        }

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> Any:
        others = [keras.saving.deserialize_keras_object(one) for one in config["others"]]
        made = cls(from_dict(config["config"]), *others, name=config["name"], dtype=config["dtype"])
        made.restore(config["changes"], made.name)
        return made


class Layer(Seams, keras.layers.Layer):
    """Base class of all layers except products. Layers inside it are built with it."""

    CASTS = True
    """Whether Keras casts the arguments to the compute dtype of the layer. Layers that take a ``bias`` of scores, which
    stays float32, leave casting to the layers inside them."""
    FIXED: tuple[str, ...] = ()
    """Names of the layer's own weights that are not trained."""
    shards: int = 1
    """Number of devices over which the columns of fused products are split (`models.layers.operations.split_columns`).
    Set while the step of a training is traced; not saved."""

    def __init__(self, config: Config, **kwargs: Any):
        super().__init__(autocast=self.CASTS, **kwargs)
        self.config = config
        for name, part in config.parts():
            setattr(self, name, self.make(name, part))

    def make(self, name: str, part: Config) -> Any:
        """Makes the layer called ``name`` inside this one from its configuration ``part``."""
        return KINDS[type(part)](part, name=name, dtype=self.dtype_policy)

    def build(self, input_shape: Any = None) -> None:
        """Creates all weights: the layer's own, then those of the layers inside it, in the order of `Config.parts`."""
        starts = self.starts()
        for name, dims in self.config.weights().items():
            start = initializer(starts.get(name, ZEROS))
            setattr(self, name, self.add_weight(dims, start, trainable=name not in self.FIXED, name=name))
        for name, _ in self.config.parts():
            part = getattr(self, name)
            if not part.built:
                part.build()

    def exchange(self, name: str, config: Config | None) -> None:
        """Replaces the layer ``name`` inside this one by a layer of ``config``, or removes it if ``config`` is None.
        This layer must be built and not yet traced. The weights are new, and their paths begin like those of the old
        layer."""
        old, (above, _, last), new = getattr(self, name), self.path.rpartition("/"), None
        if config is not None:
            with keras.name_scope(last, override_parent=above):
                new = self.make(name, config)
                new.build()
        self._tracker.unlock()
        self._tracker.untrack(old)
        setattr(self, name, new)
        self._tracker.lock()
        self.config = replace(self.config, **{name: config})

    def starts(self) -> Mapping[str, Start]:
        """Initial values of the layer's own weights."""
        return {}

    def changes(self) -> dict[str, Any]:
        """Extensions of this layer, and the changes of the layers inside it."""
        inside = {name: getattr(self, name).changes() for name, _ in self.config.parts()}
        inside = {name: found for name, found in inside.items() if found}
        return super().changes() | ({"parts": inside} if inside else {})

    def restore(self, changes: Mapping[str, Any], path: str) -> None:
        super().restore(changes, path)
        for name, found in changes.get("parts", {}).items():
            getattr(self, name).restore(found, f"{path}/{name}")


KINDS: dict[type, type] = {}
"""The class of the layer that is built from each class of configuration."""


def made_from(config: type) -> Any:
    """Decorates a layer with the class of the configuration that it is built from, and registers it with Keras's
    loader."""

    def known(cls: type) -> type:
        KINDS[config] = cls
        return keras.saving.register_keras_serializable(package="ptmbench")(cls)

    return known


def built(config: Config, *others: Any, name: str) -> Any:
    """Makes and builds the layer of ``config`` under ``name``; ``others`` are layers that it refers to."""
    layer = KINDS[type(config)](config, *others, name=name)
    layer.build()
    return layer


@made_from(LinearConfig)
class Linear(Seams, keras.layers.Dense):
    """x [N, I] @ kernel [I, O] + bias [O].

    This is a `keras.layers.Dense`, so ``quantize`` and ``enable_lora`` work as they do there. Extensions at "kernel"
    get the kernel, those at "input" and "output" the vectors.
    """

    SEAMS = ("kernel", "input", "output")

    def __init__(self, config: LinearConfig, **kwargs: Any):
        super().__init__(config.outputs, use_bias=config.bias, kernel_initializer="zeros", **kwargs)
        self.config = config

    def build(self, input_shape: Any = None) -> None:
        self.kernel_initializer = initializer(self.config.start)  # not before: it draws its seed when it is made
        alpha = self.lora_alpha
        super().build((None, self.config.inputs))
        if self.lora_rank:
            self.lora_alpha = alpha  # Keras sets its default when it builds

    def call(self, x: tf.Tensor, training: Any = None) -> tf.Tensor:
        kernel = self.kernel
        if self.extensions("kernel"):
            kernel = self.through("kernel", tf.convert_to_tensor(kernel))
        x = product(self.through("input", x), kernel)
        return self.through("output", x if self.bias is None else tf.nn.bias_add(x, self.bias))

    def quantized_call(self, x: tf.Tensor, *args: Any, **kwargs: Any) -> tf.Tensor:
        return self.through("output", super().quantized_call(self.through("input", x), *args, **kwargs))

    def quantize(self, mode: Any = None, type_check: bool = True, config: Any = None) -> None:
        """As `keras.layers.Dense`. Raises `ValueError` if extensions change the kernel, because the quantised kernel
        does not pass through them."""
        if self.extensions("kernel"):
            names = ", ".join(one.name for one in self.extensions("kernel"))
            raise ValueError(
                f"Linear '{self.path}' cannot be quantised while extensions change its kernel ({names}). Write their "
                "result into the kernel first and make the layer without them."
            )
        with _frozen_garbage_collection():
            super().quantize(mode, type_check=False, config=config)  # Keras refuses subclasses otherwise

    def changes(self) -> dict[str, Any]:
        """Extensions, LoRA and quantisation."""
        found = super().changes()
        if self.lora_rank:
            found |= {"lora_rank": self.lora_rank, "lora_alpha": self.lora_alpha}
        if self.quantization_mode:
            found |= {
                "dtype": keras.saving.serialize_keras_object(self.dtype_policy),
                "quantization": keras.saving.serialize_keras_object(self.quantization_config),
            }
        return found

    def restore(self, changes: Mapping[str, Any], path: str) -> None:
        super().restore(changes, path)
        self.lora_rank, self.lora_alpha = changes.get("lora_rank"), changes.get("lora_alpha")
        if "dtype" in changes:
            self.dtype_policy = keras.saving.deserialize_keras_object(changes["dtype"])
            self.quantization_config = keras.saving.deserialize_keras_object(changes["quantization"])


@contextmanager
def _frozen_garbage_collection() -> Iterator[None]:
    """Excludes existing objects from garbage collection.

    Keras collects garbage whenever a layer drops a variable. With TensorFlow loaded, each collection takes about half a
    second.
    """
    if gc.get_freeze_count():  # other code froze objects, which `gc.unfreeze` would release
        yield
        return
    gc.freeze()
    try:
        yield
    finally:
        gc.unfreeze()


@made_from(OutputConfig)
@made_from(TableConfig)
class Table(Layer):
    """Looks up the vectors [..., D] of rows int32 [...].

    Extensions at "table" get the whole table [R, D]. They do not affect other layers that use its variable: an output
    layer that is tied to a table of token vectors, or a decoder that shares it.
    """

    SEAMS = ("table",)

    def starts(self) -> Mapping[str, Start]:
        return {"table": self.config.start}

    def call(self, rows: tf.Tensor) -> tf.Tensor:
        return tf.gather(self.whole(), rows)

    def whole(self) -> tf.Tensor:
        """The table [R, D]."""
        return self.through("table", self.table.value)

    def first(self, count: Any) -> tf.Tensor:
        """The first ``count`` rows, [T, D]."""
        return self.whole()[:count]


@made_from(NormConfig)
class Norm(Layer):
    """Layer-norm of vectors [N, D], or root-mean-square norm if not ``centred``."""

    def starts(self) -> Mapping[str, Start]:
        return {"scale": ONES, "bias": ZEROS}

    def call(self, x: tf.Tensor) -> tf.Tensor:
        if self.config.centred:
            return layer_norm(x, self.scale, self.bias, self.config.epsilon)
        return rms_norm(x, self.scale, self.config.epsilon)
