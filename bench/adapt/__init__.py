"""How a pre-trained model meets a task: one adaptation per file, and the heads that forms put on encoders.

An adaptation file defines ``SUMMARY`` and ``Reading(encoder, settings)``: a Keras layer that turns an `Encoding` into
what heads read, and names matrices in ``glorot`` as heads do. It may have a training ``Step`` and a ``rate`` of its
own, something to learn ``First``, a second stage from ``turn(steps, settings)`` on, and ``make(adapted, rows, settings,
seed)``: the rows that a step learns from, made of ``rows`` with the weights of the moment, and the FLOPs of making
them. One with ``HEADS`` (form to a file below `bench.adapt.heads`) meets only the forms in it; ``Decoding(network,
vocabulary, settings)`` writes in the place of a model's own decoder, in a way of its own where it has
``written(batch)``. One under which nothing learns has ``respond(asked)`` in their place: an `Asked` to predictions and
the FLOPs of making them. One whose settings name ``others``, tasks to learn besides, has a codec with
``beside(examples)``: their rows, each with its ``task``. One whose settings name ``models`` to read besides has
``Reading(encoder, settings, *encoders)``, which is called with an `Encoding` of each, and a codec with
``join(tokenizers)``. The folder is the registry; `bench.adapt.settings` holds the hyper-parameters of forms, and in a
file for each the adaptation's own, whether the encoder stays as it is, and what all that costs (`bench.adapt.effort`);
it imports no TensorFlow.
"""

from pathlib import Path
from types import ModuleType

from ptmbench.bench.errors import BrokenFile
from ptmbench.models._importing import imported

_MACHINERY = {"__init__", "adapted", "asking", "course", "effort", "loop", "rated"}


class NotApplicable(Exception):
    """A pair of model and task that cannot be: ``code`` for machines, the message ("because ...") for the board."""

    def __init__(self, code: str, text: str):
        super().__init__(text)
        self.code = code


class NoDecoder(NotApplicable):
    """A model that cannot write meets a task that wants it to."""

    def __init__(self) -> None:
        super().__init__("no-decoder", "because this model has no decoder to write with.")


def check(name: str) -> None:
    """`bench.errors.BrokenFile` where the source of the adaptation ``name`` lacks what every one defines. Imports
    nothing: the adaptation itself imports TensorFlow."""
    from ptmbench.bench.adapt import _contract

    _contract.check(name)


def load(name: str) -> ModuleType:
    """The file of the adaptation ``name``, imported and checked; `bench.errors.BrokenFile` says what is wrong."""
    from ptmbench.bench.adapt import _contract

    module = imported(f"ptmbench.bench.adapt.{name}", _contract.path_of(name), BrokenFile)
    _contract.check_module(name, module)
    return module


def names() -> tuple[str, ...]:
    """Every adaptation's name, sorted."""
    return tuple(sorted(f.stem for f in Path(__file__).parent.glob("[!_.]*.py") if f.stem not in _MACHINERY))
