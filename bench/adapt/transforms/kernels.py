"""Where the weights of an adapted network are that transforms change: kernels, tables of vectors, the head.

Kernels are the matrices of products ([I, O], `models.layers.core.Linear`) inside the encoder, and inside the decoder
where the network's own one writes. Layers that only pre-training uses (an output layer of masked-language modelling)
do not answer, and stay.
"""

from collections.abc import Sequence
from typing import Any

from ptmbench.bench.adapt.adapted import Adapted
from ptmbench.models.layers.core import Linear, Table


def products(adapted: Adapted) -> list[Linear]:
    """The layers of ``adapted`` that have a kernel of the pre-trained network, each once."""
    known = {id(variable) for variable in adapted.pretrained}
    return [one for one in _layers(adapted, Linear) if id(one.kernel) in known]


def tables(adapted: Adapted) -> list[Any]:
    """The variables [R, D] in which ``adapted`` looks vectors up (of tokens, positions, segments), each once."""
    known = {id(variable) for variable in adapted.pretrained}
    found = {id(one.table): one.table for one in _layers(adapted, Table) if id(one.table) in known}
    return list(found.values())


def names(adapted: Adapted, variables: Sequence[Any]) -> tuple[str, ...]:
    """What `Adapted.arrays` calls ``variables``."""
    own = {id(variable): name for name, variable in adapted.named()}
    return tuple(own[id(variable)] for variable in variables)


def _layers(adapted: Adapted, kind: type) -> list[Any]:
    network = adapted.network
    inside = network.loss if adapted.decoding is not None and not adapted.decoding.own else network.encoder
    found = [one for one in inside._flatten_layers() if isinstance(one, kind)]
    return list({id(one): one for one in found}.values())
