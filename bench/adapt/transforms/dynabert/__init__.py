"""DynaBERT: one network is trained so that its sub-networks of several widths and depths are good networks too.

Hou, Huang, Shang, Jiang, Chen and Liu (2020), "DynaBERT: Dynamic BERT with Adaptive Width and Depth", section 2. The
adapted model is the first teacher. Read in the authors' code (huawei-noah/Pretrained-Language-Model,
`DynaBERT/run_glue.py` at 1bb9b3e); where paper and code differ, it is said.

1. Rewiring (section 2.1). Heads and neurons of each block are put in descending order of their importance for the loss,
   so that narrow sub-networks have the important ones. The network computes what it computed before.
2. Adaptive width (section 2.1). In every step all sub-networks of the ``widths`` m_w learn from the adapted model,
   whose logits are y, vectors of embeddings E and hidden states H_1 ... H_L; their gradients are added up:

       sum_{m_w} lambda_1 SCE(y^(m_w), y) + lambda_2 (MSE(E^(m_w), E) + sum_l MSE(H_l^(m_w), H_l))

3. Adaptive width and depth (section 2.2). The network after stage 2 is the teacher, and all sub-networks of the
   ``widths`` and ``depths`` m_d learn from its sub-networks of the same width with all layers:

       sum_{m_w, m_d} lambda_1 SCE(y^(m_w, m_d), y^(m_w))
                      + lambda_2 (MSE(E^(m_w, m_d), E^(m_w)) + sum_{l in kept} MSE(H_l^(m_w, m_d), H_l'^(m_w)))

SCE is the cross-entropy with the teacher's softmax. Of the hidden states, what goes into each layer that is kept is
compared with what goes into the same layer of the teacher, and the last ones with the last ones, as in the authors'
code. lambda_1 and lambda_2 are 1 and 0.1 in stage 2, and 1 and 1 in stage 3, as there. `elastic` says which units and
layers a sub-network has; `subnetwork` takes one out.

Differences: importance is that of Michel et al. (2019), for heads and neurons alike (`bench.adapt.transforms.units`).
For neurons, the authors' code adds the same product for the weights that go into them; it takes magnitudes of batches
and measures on the development set, where here it is training examples. In stage 3 its teacher has the full width for
all sub-networks; here it has the same width, as in the paper. No data are augmented, while the paper trains on texts
that TinyBERT's method adds. Means of states run over tokens that are no padding. For regression SCE is a squared
difference; the code has no such term. The weights after the last step count; the code keeps those of the best sum of
the scores of all sub-networks.

Forms: classification, regression and tagging. Controls: ``by=random`` has an order that is drawn; with
``width_epochs=0+depth_epochs=0`` sub-networks have the units that matter, and no training.
"""

import re
from dataclasses import dataclass
from typing import Any

from ptmbench.bench.adapt.settings import Settings as Adapting
from ptmbench.bench.adapt.settings import one_of, setting
from ptmbench.bench.adapt.transforms.contract import Material, Transformed
from ptmbench.bench.adapt.transforms.further import to_the_end


def _are_shares(value: str) -> bool:
    if not re.fullmatch(r"(0\.\d{1,4}|1)(/(0\.\d{1,4}|1))*", value):
        return False
    found = [float(one) for one in value.split("/")]
    return found == sorted(set(found)) and found[0] > 0 and found[-1] == 1


def shares(default: str) -> Any:
    """A setting of several shares, 1 the last one."""
    return setting(default, "ascending numbers above 0 with a / between them, 1 the last one: 0.5/1", _are_shares)


@dataclass(frozen=True, kw_only=True)
class Settings:
    """What ``dynabert:name=value`` may change."""

    widths: str = shares("0.25/0.5/0.75/1")
    """m_w, the shares of heads and neurons of the sub-networks that are trained."""
    depths: str = shares("0.5/0.75/1")
    """m_d, the shares of layers of the sub-networks that are trained."""
    by: str = one_of("importance", "importance", "random")
    """The order of units: by importance, or drawn."""
    examples: int = setting(1000)
    """Training examples that importance is measured on; 0 for all."""
    width_epochs: int = setting(3)
    """Passes over the training examples of stage 2."""
    depth_epochs: int = setting(3)
    """Passes over the training examples of stage 3."""
    width_states: float = setting(0.1)
    """lambda_2 of stage 2."""
    depth_states: float = setting(1.0)
    """lambda_2 of stage 3."""
    max_steps: int = setting(0)
    """Training steps of each stage at most; 0 is no limit."""
    learning_rate: float = setting(0.0)
    """Peak learning rate; 0 for the adaptation's."""

    def listed(self, name: str) -> list[float]:
        """The numbers of ``widths`` or ``depths``."""
        return [float(one) for one in getattr(self, name).split("/")]

    @property
    def passes(self) -> float:
        """How many epochs of plain training cost as much; the forward pass of a teacher costs a third of a step."""
        wide, deep = sum(self.listed("widths")), sum(self.listed("depths"))
        return self.width_epochs * (wide + 1 / 3) + self.depth_epochs * wide * (deep + 1 / 3)

    @property
    def epochs(self) -> int:
        """`passes`, for estimates; the stages have epochs of their own."""
        return max(1, round(self.passes))


class DynaBert:
    """`bench.adapt.transforms.contract.Transform`; trains."""

    summary = "sub-networks of several widths and depths learn from the whole network, and share its weights (DynaBERT)"
    settings = Settings
    version = 1
    compression = "width"
    rebuilds = False
    final = False

    def label(self, settings: Settings) -> str:
        trained = "adaptive width and depth" if settings.passes else "rewired for adaptive width"
        return trained + (", random order of units" if settings.by == "random" else "")

    def training(self, settings: Settings, adaptation: Adapting) -> Adapting:
        return to_the_end(settings, adaptation)

    def transformed(self, material: Material) -> Transformed:
        from ptmbench.bench.adapt.transforms.dynabert.network import adaptive

        return adaptive(material)

    def prepare(self, adapted: Any, settings: Settings) -> None:
        """Does nothing, because the network keeps its shape."""


TRANSFORM = DynaBert()
