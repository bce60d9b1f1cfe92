"""Head pruning by L0 gates: each attention head gets a gate, and training closes the gates of unimportant heads.

Voita, Talbot, Moiseev, Sennrich and Titov (2019), "Analyzing Multi-Head Self-Attention", section 6.1. The result of
each head is multiplied by a gate g_i in [0, 1], a random variable that is drawn once for each batch. It has a Hard
Concrete distribution (Louizos, Welling and Kingma, 2018) with the parameter log a_i:

    s_i = sigmoid((log u - log(1 - u) + log a_i) / beta)        u ~ Uniform(0, 1)
    g_i = min(1, max(0, s_i (zeta - gamma) + gamma))            beta = 0.33, gamma = -0.1, zeta = 1.1

With these values, taken from the authors' code (lena-voita/the-story-of-heads), the gate can be exactly 0 or 1.
The adapted model and the gates are trained further on

    L = L_task + lambda mean_i (1 - P(g_i = 0))       1 - P(g_i = 0) = sigmoid(log a_i - beta log(-gamma / zeta))

A larger ``penalty`` (lambda) closes more gates. After training, a head is kept if P(g_i = 1) > P(g_i = 0), that is, if
log a_i > 0, and removed otherwise. As in `heads`, the network becomes smaller.

Differences: the paper's penalty is the sum over all gates. Each of many heads matters less for the task: with the sum,
lambda = 0.2 closes 66 of the 72 gates of MiniLM-L6. The paper may remove all heads of a layer; here the one with the
largest log a_i is kept. Gates start with log a_i = 2, where P(g_i = 1) is 0.77 and P(g_i = 0) is 0.06. Their learning
rate is ``gate_rate``, because fine-tuning is short: with a rate of fine-tuning, 1e-4, Adam could move log a_i by no
more than 0.05 in 500 steps.

The weights after the last step are returned, regardless of earlier scores on the selection split, because earlier
weights have more heads. Scores are those of the network without the heads whose gates are closed. The record's cost has
``heads_kept`` and ``head_sparsity``, the share of heads that was removed.

Controls, where S is the share of heads that the gates have removed: ``heads:by=random+share=S+epochs=5`` removes random
heads and trains for as long, and ``heads:share=S+epochs=5`` removes the least important ones.
"""

from dataclasses import dataclass
from typing import Any

from ptmbench.bench.adapt.settings import Settings as Adapting
from ptmbench.bench.adapt.settings import positive, setting
from ptmbench.bench.adapt.transforms.contract import Material, Transformed
from ptmbench.bench.adapt.transforms.further import without_early_stopping


@dataclass(frozen=True, kw_only=True)
class Settings:
    """The settings of ``gates:name=value``."""

    penalty: float = setting(0.2)
    """lambda, the weight of the expected share of open gates in the loss."""
    gate_rate: float = positive(0.05)
    """Peak learning rate of the gates."""
    epochs: int = positive(5)
    """Passes over the training examples."""
    max_steps: int = setting(0)
    """Maximum number of training steps; 0 for no limit."""
    learning_rate: float = setting(0.0)
    """Peak learning rate of the weights; 0 for the adaptation's."""


class Gates:
    """A `bench.adapt.transforms.contract.Transform` with training."""

    summary = "attention heads are taken out whose gates close in further training (L0 penalty)"
    settings = Settings
    version = 4  # 4: the penalty is a mean over gates; 3: small learning rates of the weights do not round the gates
    compression = "pruning"
    rebuilds = False
    final = False

    def label(self, settings: Settings) -> str:
        return f"heads removed by L0 gates, penalty {settings.penalty:g}"

    def training(self, settings: Settings, adaptation: Adapting) -> Adapting:
        return without_early_stopping(settings, adaptation)

    def transformed(self, material: Material) -> Transformed:
        from ptmbench.bench.adapt.transforms.gates.network import train_with_gates

        return train_with_gates(material)

    def prepare(self, adapted: Any, settings: Settings) -> None:
        """Does nothing, because the shape of the stack fully describes the network."""


TRANSFORM = Gates()
