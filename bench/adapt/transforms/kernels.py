"""Finds the weights of an adapted network that transforms change: kernels, embedding tables, the head.

Kernels are the matrices of products ([I, O], `models.layers.core.Linear`) in the encoder and in the decoder that is
used, which is the network's own or one that the adaptation adds. Other weights do not change: layers for pre-training
only (the output layer of masked-language modelling), adapters, FastBERT's branches, and the matrices that join the two
language models of `lm_seq2seq`.
"""

from collections.abc import Iterator, Sequence
from typing import Any

import keras

from ptmbench.bench.adapt.adapted import Adapted
from ptmbench.bench.adapt.parts import Decoding, token_table
from ptmbench.bench.errors import NotApplicable
from ptmbench.models.layers.core import Linear, Table


def products(adapted: Adapted) -> list[Linear]:
    """The layers of ``adapted`` with a kernel of its encoder or its decoder, each once."""
    known = _known(adapted)
    return [one for one in _layers(adapted, Linear) if id(one.kernel) in known]


def tables(adapted: Adapted) -> list[Any]:
    """The embedding tables [R, D] of ``adapted`` (for tokens, positions, segments), each once."""
    known = _known(adapted)
    found = [one.table for one in _layers(adapted, Table)]
    found += [table for part in _added(adapted.decoding) if (table := token_table(part)) is not None]
    return list({id(one): one for one in found if id(one) in known}.values())


def lookups(adapted: Adapted) -> list[Table]:
    """The layers of the `tables` of ``adapted``. None with a decoder, because its output layer may use a table without
    going through these layers."""
    known = _known(adapted)
    return [] if adapted.decoding else [one for one in _layers(adapted, Table) if id(one.table) in known]


def heads(adapted: Adapted) -> list[Any]:
    """The matrices of the head of ``adapted``; none with a decoder. Classifiers of several layers may be one array of
    three axes."""
    inside = {id(variable) for variable in adapted.head.trainable_variables}
    found = [variable for variable in adapted.own if id(variable) in inside]
    return [] if adapted.decoding else [variable for variable in found if len(variable.shape) >= 2]


def prunable(adapted: Adapted, settings: Any) -> list[Any]:
    """The trained variables of ``adapted`` that the ``settings`` of `prune` prune, each once."""
    found = [one.kernel for one in products(adapted)]
    found += tables(adapted) if settings.embeddings else []
    found += heads(adapted) if settings.head else []
    learning = {id(variable) for variable in adapted.learning}
    return list({id(one): one for one in found if id(one) in learning}.values())


def check_blocks_used(adapted: Adapted) -> None:
    """Raises `NotApplicable` if the output of ``adapted`` does not depend on the blocks of its encoder."""
    if adapted.settings.layers == "embedding" and not adapted.decoding:
        raise NotApplicable(
            "embedding-only",
            f"because the adaptation {adapted.adaptation.name} with layers=embedding reads only the embedding, so the "
            "blocks of the encoder have no effect on its answers.",
        )


def names(adapted: Adapted, variables: Sequence[Any]) -> tuple[str, ...]:
    """The names of ``variables`` in `Adapted.arrays`."""
    own = {id(variable): name for name, variable in adapted.named_variables()}
    return tuple(own[id(variable)] for variable in variables)


def _known(adapted: Adapted) -> set[int]:
    """The ids of the variables of the pre-trained network, and of a decoder that the adaptation adds."""
    added = adapted.decoding.own if adapted.decoding else ()
    return {id(variable) for variable in (*adapted.pretrained, *added)}


def _layers(adapted: Adapted, kind: type) -> list[Any]:
    """The layers of ``kind`` that are used in inference, each once."""
    network, decoding = adapted.network, adapted.decoding
    writes_itself = decoding is not None and not decoding.own
    roots = [network.loss] if writes_itself else [network.encoder, *_added(decoding)]
    found = [one for root in roots for one in root._flatten_layers() if isinstance(one, kind)]
    return list({id(one): one for one in found}.values())


def _added(decoding: Decoding | None) -> Iterator[keras.layers.Layer]:
    """The layers of a decoder that the adaptation adds, and of decoders that it wraps."""
    for part in vars(decoding).values() if decoding is not None and decoding.own else ():
        if isinstance(part, keras.layers.Layer):
            yield part
        elif isinstance(part, Decoding):
            yield from _added(part)
