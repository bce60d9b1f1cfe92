"""Pruning before fine-tuning: the smallest pre-trained weights become zero, and the others are fine-tuned.

Gordon, Duh and Andrews (2020), "Compressing BERT: Studying the Effects of Weight Pruning on Transfer Learning",
sections 2.1 and 3.2. Each kernel W keeps the share 1 - ``sparsity`` of its pre-trained weights, the largest in
magnitude. The mask M of zeros and ones is fixed during fine-tuning, so masked weights stay zero.

    W <- M W before the first step and after each update        M_ij = 1 if |W_ij| is above the threshold of its kernel

The TensorFlow Model Optimization Toolkit computes the masks, also in a ``pattern`` of blocks or of m zeros in n inputs
(`bench.adapt.transforms.prune`). So one pruned model serves all tasks. In contrast, `prune` prunes after fine-tuning
(section 3.4), separately for each task.

Differences: the paper continues pre-training while it prunes and for 90,000 steps after that, to recover the loss; here
fine-tuning is the only training after pruning. In the paper, queries, keys and values have separate thresholds; here
they are one kernel with one threshold. Embedding tables are pruned with ``embeddings=1`` only.

Controls: ``by=random`` masks the same number of randomly drawn weights, in the same pattern. ``hold=0`` sets the same
weights to zero and lets them learn again (the paper's "information deletion", section 3.3). ``sparsity=0`` is plain
fine-tuning.

Transforms that train the model further keep these zeros. After ``hold=0`` they keep none, and choose no new ones.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ptmbench.bench.adapt import settings
from ptmbench.bench.adapt.finetune import FineTuning
from ptmbench.bench.adapt.settings import Learning
from ptmbench.bench.adapt.transforms import prune
from ptmbench.tasks.forms import Form


@dataclass(frozen=True, kw_only=True)
class Own(Learning):
    """Settings of fine-tuning and of the masks."""

    sparsity: float = settings.share(0.5)
    """Share of the weights of each kernel that are zero."""
    pattern: str = settings.setting("", "2:4 (zeros of consecutive inputs), 4x1 (block) or empty", prune.is_pattern)
    """The pattern of the zeros, as in the transform `prune`."""
    by: str = settings.one_of("magnitude", "magnitude", "random")
    """The weights that are kept: the largest ones, or randomly drawn ones."""
    hold: int = settings.switch(1)
    """1: masked weights stay zero; 0: they learn again."""
    embeddings: int = settings.switch(0)
    """1: embedding tables are pruned too."""

    def __post_init__(self) -> None:
        self.pruning()  # raises an error for a pattern that needs another sparsity

    def pruning(self) -> prune.Settings:
        """The settings of the masks for the TensorFlow Model Optimization Toolkit."""
        return prune.Settings(
            sparsity=self.sparsity, pattern=self.pattern, schedule="constant", embeddings=self.embeddings
        )


class Sparse(FineTuning):
    summary = "the smallest pre-trained weights become zero and stay zero while the others are fine-tuned"
    systems = ()
    settings = Own
    compression = "pruning"

    def step(self, loss: Any, variables: Sequence[Any], **options: Any) -> Any:
        from ptmbench.bench.adapt.sparse.network import SparseStep

        return SparseStep(loss, variables, **options)

    def first(self, network: Any, vocabulary: Any, form: Form, **options: Any) -> Any:
        """Chooses the masks before the first step. Transforms do not call it."""
        from ptmbench.bench.adapt.sparse.network import initialise_masks

        return initialise_masks

    def pruning(self, settings: Own) -> prune.Settings | None:
        return settings.pruning() if settings.hold else None


ADAPTATION = Sparse()
