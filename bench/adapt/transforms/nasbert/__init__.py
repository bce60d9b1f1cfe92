"""NAS-BERT: the shape of a smaller network is searched for, block by block, and that network is trained.

Xu, Tan, Luo, Song, Li, Qin and Liu (2021), "NAS-BERT: Task-Agnostic and Adaptive-Size BERT Compression with Neural
Architecture Search", section 3. The authors published no code. The adapted model is the teacher.

1. Search space. A layer keeps one of the ``shares`` of its heads and one of the ``shares`` of its neurons, or is
   omitted (the identity). All architectures share the weights of one supernet: a narrower layer has its first units.
2. Block-wise training with distillation. The layers form ``blocks`` of consecutive layers. In each step a path a_n
   through every block is drawn from its candidates. Its input is the input of the teacher's block, and it learns the
   output of that block. Gradients do not leave the block:

       loss = sum_n MSE(S_n(Y_(n-1); a_n), Y_n)        Y_n: the hidden states of the teacher after block n

3. Progressive shrinking. The candidates of a block are put into ``bins`` by their parameters. Between two of the
   ``search_epochs``, the half of each bin with the higher loss on texts of the selection split is dropped; each bin
   keeps at least two.
4. Model selection. The loss of an architecture is estimated as the sum of the losses of its blocks. The remaining
   candidates are combined. The chosen combination has the lowest sum, and its blocks have at most the share
   ``parameters`` of the teacher's parameters and the share ``flops`` of its FLOPs.
5. The chosen architecture is trained for ``tuning_epochs`` against the teacher's logits and hidden states, by the loss
   of `dynabert`. Its initial weights are the teacher's first units (``start=supernet``: the weights of the search).

The cost of the transform includes all of this; ``search_flops`` in the record is the cost of 2 to 4.

Differences: the paper searches in pre-training, for all tasks, and pre-trains the result. Its search space also has
separable convolutions, and chooses attention and feed-forward layers separately. Its supernet starts with random
weights; this one starts with the adapted model and units in the order of their importance, as in `dynabert`, so that
all widths have important units. The paper limits the measured latency. Here FLOPs are limited instead, so that the
architecture does not depend on the machine. The paper's numbers of bins and of survivors are larger.

Control: ``by=random`` draws an architecture with at least 90 % of the allowed parameters, and trains it in the same way
for as long. The difference shows the value of the search; ``search_flops`` is its cost.
"""

import math
from dataclasses import dataclass
from typing import Any

from ptmbench.bench.adapt.settings import Settings as Adapting
from ptmbench.bench.adapt.settings import one_of, positive, setting
from ptmbench.bench.adapt.transforms.contract import Material, Transformed
from ptmbench.bench.adapt.transforms.dynabert import shares
from ptmbench.bench.adapt.transforms.further import no_lesson, without_early_stopping
from ptmbench.tasks.forms import Form


def _part(default: float) -> Any:
    return setting(default, "above 0 and 1 at most", lambda value: 0 < value <= 1)


@dataclass(frozen=True, kw_only=True)
class Settings:
    """The settings of ``nasbert:name=value``."""

    shares: str = shares("0.25/0.5/1")
    """Shares of its heads and of its neurons that a layer may keep."""
    blocks: int = setting(0)
    """Number of blocks, which are searched separately; 0 for blocks of up to three layers, two blocks at least."""
    bins: int = positive(4)
    """Number of groups of candidates of similar size."""
    parameters: float = _part(0.5)
    """Largest allowed share of the parameters of all layers."""
    flops: float = _part(1.0)
    """Largest allowed share of the FLOPs of all layers."""
    by: str = one_of("search", "search", "random")
    """How the architecture is chosen: by the search or at random."""
    start: str = one_of("adapted", "adapted", "supernet")
    """The initial weights of the training of the architecture."""
    examples: int = positive(64)
    """Number of texts for measuring the losses of candidates."""
    search_epochs: int = positive(4)
    """Passes over the training examples for the search."""
    tuning_epochs: int = positive(3)
    """Passes over the training examples for the training of the architecture."""
    max_steps: int = setting(0)
    """Maximum number of steps of each of these trainings; 0 for no limit."""
    learning_rate: float = setting(0.0)
    """Peak learning rate; 0 for the adaptation's."""

    def block_count(self, layers: int) -> int:
        """The number of blocks of a model with this number of ``layers``."""
        return self.blocks or min(layers, max(2, math.ceil(layers / 3)))

    @property
    def epochs(self) -> int:
        """The number of epochs of plain training with the same cost, for estimates. A path of the search has about half
        of the layers' FLOPs, and the forward pass of a teacher costs a third of a step."""
        searching = 0 if self.by == "random" else self.search_epochs
        return max(1, round(searching * (1 / 2 + 1 / 3) + self.tuning_epochs * (self.parameters + 1 / 3)))

    def measured_texts(self, layers: int, batch: int) -> float:
        """The number of texts that the whole network could read for the cost of measuring the candidates. Each
        measurement has half of the candidates of the one before."""
        if self.by == "random":
            return 0.0
        parts = [float(one) for one in self.shares.split("/")]
        options = 1 + len(parts) ** 2  # one of them is the identity
        blocks = self.block_count(layers)
        inside = math.ceil(layers / blocks)
        computed = blocks * sum(options**count for count in range(1, inside + 1))
        share = sum(parts) / len(parts) * (options - 1) / options  # of the FLOPs of a layer
        measurements = sum(0.5**number for number in range(self.search_epochs))
        return self.examples * (1 + share * computed / layers) * measurements


class NasBert:
    """A `bench.adapt.transforms.contract.Transform` with training."""

    summary = "the shape of a smaller network is searched for, block by block, and trained by distillation (NAS-BERT)"
    settings = Settings
    version = 2
    compression = "search"
    rebuilds = False
    final = False

    def label(self, settings: Settings) -> str:
        found = "random architecture" if settings.by == "random" else "architecture search"
        limit = f", {100 * settings.flops:g} % of FLOPs" if settings.flops < 1 else ""
        return f"{found}, {100 * settings.parameters:g} % of parameters{limit}"

    def training(self, settings: Settings, adaptation: Adapting) -> Adapting:
        return without_early_stopping(settings, adaptation)

    def obstacle(self, adaptation: str, form: Form) -> str:
        return no_lesson(adaptation, form)

    def transformed(self, material: Material) -> Transformed:
        from ptmbench.bench.adapt.transforms.nasbert.network import search_and_train

        return search_and_train(material)

    def prepare(self, adapted: Any, settings: Settings) -> None:
        """Does nothing, because the shape of the stack fully describes the network."""


TRANSFORM = NasBert()
