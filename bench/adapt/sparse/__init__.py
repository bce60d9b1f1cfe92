"""Pruning before fine-tuning: the smallest pre-trained weights become zero, and the others are fine-tuned.

Gordon, Duh and Andrews (2020), "Compressing BERT: Studying the Effects of Weight Pruning on Transfer Learning",
sections 2.1 and 3.2. Each kernel W keeps the share 1 - ``sparsity`` of its pre-trained weights that are largest in
magnitude. The mask M, zeros and ones, is held during fine-tuning: a masked weight gets no update.

    W <- M W before the first step and after each update        M_ij = 1 if |W_ij| is above the threshold of its kernel

The TensorFlow Model Optimization Toolkit computes the masks, also in a ``pattern`` of blocks or of m zeros in n inputs
 (`bench.adapt.transforms.prune`). So one pruned model serves all tasks. `prune` prunes after fine-tuning
(section 3.4), for each task anew.

Differences: the paper goes on with pre-training while it prunes and for 90,000 steps after that, to regain what was
lost; here fine-tuning is all the training that follows. Its queries, keys and values have a threshold each; here they
are one kernel with one threshold. Tables of vectors are pruned with ``embeddings=1`` only.

Controls: ``by=random`` masks as many weights that are drawn, in the same pattern. ``hold=0`` sets the same weights to
zero and lets them learn again (the paper's "information deletion", section 3.3). ``sparsity=0`` is plain fine-tuning.

Transforms with training steps of their own (`theseus`, `gates`) do not hold the masks.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ptmbench.bench.adapt import settings
from ptmbench.bench.adapt.finetune import FineTuning
from ptmbench.bench.adapt.settings import Learning
from ptmbench.bench.adapt.transforms import prune


@dataclass(frozen=True, kw_only=True)
class Own(Learning):
    """Settings of fine-tuning, and which weights are masked."""

    sparsity: float = settings.share(0.5)
    """Share of the weights of each kernel that are zero."""
    pattern: str = settings.setting("", "2:4 (zeros of consecutive inputs), 4x1 (block) or empty", prune.is_pattern)
    """Which weights go together, as in the transform prune."""
    by: str = settings.one_of("magnitude", "magnitude", "random")
    """Which weights stay: the largest ones, or some that are drawn."""
    hold: int = settings.switch(1)
    """1: masked weights stay zero; 0: they learn again."""
    embeddings: int = settings.switch(0)
    """1: tables of vectors are pruned too."""

    def __post_init__(self) -> None:
        self.pruning()  # which refuses a pattern with another sparsity

    def pruning(self) -> prune.Settings:
        """The settings of the Toolkit's masks."""
        return prune.Settings(sparsity=self.sparsity, pattern=self.pattern, schedule="constant")


class Sparse(FineTuning):
    summary = "the smallest pre-trained weights become zero and stay zero while the others are fine-tuned"
    systems = ()
    settings = Own
    compression = "pruning"

    def step(self, loss: Any, variables: Sequence[Any], **options: Any) -> Any:
        from ptmbench.bench.adapt.sparse.network import SparseStep

        return SparseStep(loss, variables, **options)

    def make(self, adapted: Any, rows: Sequence[Any], settings: Any, seed: tuple[int, int]) -> tuple[Any, float]:
        from ptmbench.bench.adapt.sparse.network import begin

        begin(adapted, settings, seed[0])
        return rows, 0.0


ADAPTATION = Sparse()
