"""Where the weights of an adapted network are that transforms change: kernels, tables of vectors, the head.

Kernels are the matrices of products ([I, O], `models.layers.core.Linear`) inside the encoder, and inside the decoder
that writes: the network's own one, or one that the adaptation adds. Other weights stay: layers that only pre-training
uses (an output layer of masked-language modelling), adapters, FastBERT's branches, and the matrices with which
`lm_seq2seq` joins its two language models.
"""

from collections.abc import Iterator, Sequence
from typing import Any

import keras

from ptmbench.bench.adapt.adapted import Adapted
from ptmbench.bench.adapt.parts import Decoding, token_table
from ptmbench.models.layers.core import Linear, Table


def products(adapted: Adapted) -> list[Linear]:
    """The layers of ``adapted`` that have a kernel of its encoder or its decoder, each once."""
    known = _known(adapted)
    return [one for one in _layers(adapted, Linear) if id(one.kernel) in known]


def tables(adapted: Adapted) -> list[Any]:
    """The variables [R, D] in which ``adapted`` looks vectors up (of tokens, positions, segments), each once."""
    known = _known(adapted)
    found = [one.table for one in _layers(adapted, Table)]
    found += [table for part in _added(adapted.decoding) if (table := token_table(part)) is not None]
    return list({id(one): one for one in found if id(one) in known}.values())


def lookups(adapted: Adapted) -> list[Table]:
    """The layers of the `tables` of ``adapted`` if all uses of these pass their seam: none under a decoder, whose
    output layer may share a table."""
    known = _known(adapted)
    return [] if adapted.decoding else [one for one in _layers(adapted, Table) if id(one.table) in known]


def heads(adapted: Adapted) -> list[Any]:
    """The matrices [I, O] that the adaptation adds around the encoder of ``adapted``; none under a decoder."""
    return [] if adapted.decoding else [variable for variable in adapted.own if len(variable.shape) == 2]


def names(adapted: Adapted, variables: Sequence[Any]) -> tuple[str, ...]:
    """What `Adapted.arrays` calls ``variables``."""
    own = {id(variable): name for name, variable in adapted.named()}
    return tuple(own[id(variable)] for variable in variables)


def _known(adapted: Adapted) -> set[int]:
    """The ids of the variables of the pre-trained network, and of a decoder that the adaptation adds."""
    added = adapted.decoding.own if adapted.decoding else ()
    return {id(variable) for variable in (*adapted.pretrained, *added)}


def _layers(adapted: Adapted, kind: type) -> list[Any]:
    """The layers of ``kind`` that answer, each once."""
    network, decoding = adapted.network, adapted.decoding
    writes_itself = decoding is not None and not decoding.own
    roots = [network.loss] if writes_itself else [network.encoder, *_added(decoding)]
    found = [one for root in roots for one in root._flatten_layers() if isinstance(one, kind)]
    return list({id(one): one for one in found}.values())


def _added(decoding: Decoding | None) -> Iterator[keras.layers.Layer]:
    """The layers of a decoder that the adaptation adds, and of one that it wraps."""
    for part in vars(decoding).values() if decoding is not None and decoding.own else ():
        if isinstance(part, keras.layers.Layer):
            yield part
        elif isinstance(part, Decoding):
            yield from _added(part)
