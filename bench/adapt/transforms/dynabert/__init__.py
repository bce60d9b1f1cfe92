"""DynaBERT: one network is trained so that its sub-networks of several widths and depths are good networks too.

Hou, Huang, Shang, Jiang, Chen and Liu (2020), "DynaBERT: Dynamic BERT with Adaptive Width and Depth", section 2. The
adapted model is the first teacher. This follows the authors' code (huawei-noah/Pretrained-Language-Model,
`DynaBERT/run_glue.py` at 1bb9b3e). Differences between paper and code are stated.

1. Rewiring (section 2.1). Heads and neurons of each block are sorted in descending order of their importance for the
   loss, so that narrow sub-networks have the important ones. The network still computes the same function.
2. Adaptive width (section 2.1). In every step all sub-networks of the ``widths`` m_w learn from the adapted model, with
   its logits y, embeddings E and hidden states H_1 ... H_L. The gradients of the sub-networks are added:

       sum_{m_w} lambda_1 SCE(y^(m_w), y) + lambda_2 (MSE(E^(m_w), E) + sum_l MSE(H_l^(m_w), H_l))

3. Adaptive width and depth (section 2.2). The network after stage 2 is the teacher, and all sub-networks of the
   ``widths`` and ``depths`` m_d learn from its sub-networks of the same width with all layers:

       sum_{m_w, m_d} lambda_1 SCE(y^(m_w, m_d), y^(m_w))
                      + lambda_2 (MSE(E^(m_w, m_d), E^(m_w)) + sum_{l in kept} MSE(H_l^(m_w, m_d), H_l'^(m_w)))

SCE is the cross-entropy with the teacher's softmax. The input of each kept layer is compared with the input of the same
layer of the teacher, and the last hidden states with the last ones, as in the authors' code. lambda_1 and lambda_2 are
1 and 0.1 in stage 2, and 1 and 1 in stage 3, as there. `elastic` determines the units and layers of a sub-network;
`subnetwork` extracts one.

Differences:

- Importance is that of Michel et al. (2019), for heads and neurons alike (`bench.adapt.transforms.units`). For neurons,
  the authors' code adds the same product for their incoming weights. It takes magnitudes per batch and uses the
  development set; here it is training examples.
- In stage 3 the code's teacher has the full width for all sub-networks; here it has the same width, as in the paper.
- There is no data augmentation; the paper adds texts by TinyBERT's method. Without these texts, stage 2 of the code
  trains all widths with the gold labels alone; here they are always distilled.
- Means of states are over tokens without padding.
- For regression SCE is a squared difference; the code has no such term.
- The weights after the last step are returned; the code keeps those with the best sum of all sub-networks' scores.

Forms: classification, regression and tagging (``crf=0``). Controls: ``by=random`` sorts the units randomly. With
``width_epochs=0+depth_epochs=0`` sub-networks have the important units, but no training.
"""

import re
from dataclasses import dataclass
from typing import Any

from ptmbench.bench.adapt.settings import Settings as Adapting
from ptmbench.bench.adapt.settings import one_of, setting
from ptmbench.bench.adapt.transforms.contract import Material, Transformed
from ptmbench.bench.adapt.transforms.further import no_lesson, without_early_stopping
from ptmbench.tasks.forms import Form


def _are_shares(value: str) -> bool:
    if not re.fullmatch(r"(0\.\d{1,4}|1)(/(0\.\d{1,4}|1))*", value):
        return False
    found = [float(one) for one in value.split("/")]
    return found == sorted(set(found)) and found[0] > 0 and found[-1] == 1


def shares(default: str) -> Any:
    """A setting of several ascending shares; the last one is 1."""
    return setting(default, "ascending numbers above 0 with a / between them, 1 the last one: 0.5/1", _are_shares)


@dataclass(frozen=True, kw_only=True)
class Settings:
    """The settings of ``dynabert:name=value``."""

    widths: str = shares("0.25/0.5/0.75/1")
    """m_w, the shares of heads and neurons of the sub-networks that are trained."""
    depths: str = shares("0.5/0.75/1")
    """m_d, the shares of layers of the sub-networks that are trained."""
    by: str = one_of("importance", "importance", "random")
    """The order of units: by importance or random."""
    examples: int = setting(1000)
    """Number of training examples for measuring importance; 0 for all."""
    width_epochs: int = setting(3)
    """Passes over the training examples in stage 2."""
    depth_epochs: int = setting(3)
    """Passes over the training examples in stage 3."""
    width_states: float = setting(0.1)
    """lambda_2 of stage 2."""
    depth_states: float = setting(1.0)
    """lambda_2 of stage 3."""
    max_steps: int = setting(0)
    """Maximum number of training steps of each stage; 0 for no limit."""
    learning_rate: float = setting(0.0)
    """Peak learning rate; 0 for the adaptation's."""

    def listed(self, name: str) -> list[float]:
        """The numbers of ``widths`` or ``depths``."""
        return [float(one) for one in getattr(self, name).split("/")]

    @property
    def passes(self) -> float:
        """The epochs of plain training with the same cost. A teacher's forward pass costs a third of a step."""
        wide, deep = sum(self.listed("widths")), sum(self.listed("depths"))
        return self.width_epochs * (wide + 1 / 3) + self.depth_epochs * wide * (deep + 1 / 3)

    @property
    def epochs(self) -> int:
        """`passes` as a whole number, for estimates. The stages have their own epochs."""
        return max(1, round(self.passes))


class DynaBert:
    """A `bench.adapt.transforms.contract.Transform` with training."""

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
        return without_early_stopping(settings, adaptation)

    def obstacle(self, adaptation: str, form: Form) -> str:
        return no_lesson(adaptation, form)

    def transformed(self, material: Material) -> Transformed:
        from ptmbench.bench.adapt.transforms.dynabert.network import train_subnetworks

        return train_subnetworks(material)

    def prepare(self, adapted: Any, settings: Settings) -> None:
        """Does nothing, because the network keeps its shape."""


TRANSFORM = DynaBert()
