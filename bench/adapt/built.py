"""Networks with heads, built and traced once per process and shared by all cells that need them."""

from collections.abc import Hashable, Sequence
from functools import lru_cache
from typing import Any

import keras
import numpy as np

from ptmbench import models
from ptmbench.bench.adapt import shapes
from ptmbench.bench.adapt.adapted import Adapted
from ptmbench.bench.adapt.heads import InputRow
from ptmbench.bench.adapt.neighbours import Neighbour
from ptmbench.bench.adapt.parts import Decoding
from ptmbench.bench.adapt.settings import Settings, baked
from ptmbench.bench.adapt.shapes import Shape
from ptmbench.bench.adapt.transforms import ChosenTransform
from ptmbench.bench.engine import cost, networks
from ptmbench.models.card import Size
from ptmbench.models.text.tokenizers import Tokenizer
from ptmbench.tasks.forms import Form


def adapted(
    model: str,
    shape: Size,
    tokenizer: Tokenizer,
    form: Form,
    adaptation: str,
    outputs: Hashable,
    settings: Settings,
    neighbours: tuple[Neighbour, ...] = (),
    chain: tuple[ChosenTransform, ...] = (),
    stack: Shape | None = None,
) -> Adapted:
    """Returns the `Adapted` for these choices. Cells share it if they also agree in their `baked` settings, the shape
    of their ``stack``, and the transforms of their ``chain`` that rebuild the network."""
    rebuilt = tuple(one for one in chain if one.transform.rebuilds)
    return traced(model, shape, tokenizer, form, adaptation, outputs, baked(settings), neighbours, rebuilt, stack)


@lru_cache(maxsize=4)
def traced(
    model: str,
    shape: Size,
    tokenizer: Tokenizer,
    form: Form,
    adaptation: str,
    outputs: Hashable,
    settings: Settings,
    neighbours: tuple[Neighbour, ...],
    rebuilding: tuple[ChosenTransform, ...],
    stack: Shape | None = None,
    /,
) -> Adapted:
    """Builds the network of `adapted`, which is traced when it is first called."""
    network = networks.build(model, shape, tokenizer, 0, ending=True)
    shapes.reshape(network, stack)
    vocabulary = tokenizer.vocabulary
    described = shapes.described(models.load(model).describe(shape, vocabulary), stack)

    # If only the embedding is read, the layers above it are not in the graph.
    read = cost.embedding_flops if settings.layers == "embedding" else cost.encoder_flops

    def encoder_flops(rows: Sequence[InputRow]) -> float:
        others = (
            read(models.load(other.model).describe(other.shape, other.tokenizer.vocabulary), rows, f"tokens_{number}")
            for number, other in enumerate(neighbours, 1)
        )
        return read(described, rows) + sum(others)

    def decoder_flops(decoding: Decoding, rows: Sequence[InputRow], *written: Any) -> float:
        count = cost.writing_flops if written else cost.decoder_flops
        return count(decoding.counts(described), rows, *written) + cost.media_flops(described, rows)

    others = [networks.build(other.model, other.shape, other.tokenizer, 0) for other in neighbours]
    made = Adapted(
        network,
        vocabulary,
        form,
        adaptation,
        outputs,
        settings,
        encoder_flops,
        neighbours=others,
        decoder_flops=decoder_flops,
        reads=models.load(model).CARD.reads,
    )
    for one in rebuilding:
        one.transform.prepare(made, one.settings)
    return made


@lru_cache(maxsize=8)
def random_weights(
    model: str, shape: Size, tokenizer: Tokenizer, seed: int, stack: Shape | None = None
) -> dict[str, np.ndarray]:
    """The initial weights of a run with ``seed``, which are the weights of its random twin. With ``stack``,
    the layers have that shape."""
    keras.utils.clear_session(free_memory=False)
    network = networks.build(model, shape, tokenizer, seed)
    shapes.reshape(network, stack)
    return networks.weights(network.loss.variables)
