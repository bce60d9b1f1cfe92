"""Adapters: trains small bottlenecks in every layer, the layer norms and the head; all other weights are frozen.

Houlsby et al. (2019), section 2.1 and figure 2. Let x [D] be the output of attention, or of the feed-forward part, in a
layer, before it is added to the input of that part. An adapter replaces x by

    a(x) = x + W_2 g(W_1 x + b_1) + b_2        W_1 [D, m], W_2 [m, D], m = ``bottleneck``

The new matrices start near 0 (section 3.6), so that a is nearly the identity at first, and the network computes what it
learnt in pre-training. Each layer has 2 (2 m D + D + m) new parameters.

Adapters are attached at the seams "after_attention" and "after_feed_forward" of `models.layers.blocks.Block`, so every
encoder of such blocks can have them. Blocks with shared weights share one pair. g is GELU, as in the authors' code
(google-research/adapter-bert). The learning rate and the number of epochs lie within the paper's ranges for GLUE
(section 3.2).
"""

from dataclasses import dataclass
from typing import Any

from ptmbench.bench.adapt import settings
from ptmbench.bench.adapt.contract import Adaptation
from ptmbench.bench.adapt.effort import Network
from ptmbench.bench.adapt.settings import Learning
from ptmbench.bench.errors import NotApplicable
from ptmbench.tasks.forms import Form


@dataclass(frozen=True, kw_only=True)
class Own(Learning):
    """Defaults for new weights, which need a higher learning rate and more steps than fine-tuning."""

    learning_rate: float = settings.setting(1e-3)
    epochs: int = settings.positive(8)
    patience: int = settings.setting(3)
    bottleneck: int = settings.positive(64, baked=True)
    """m, the width of an adapter."""
    layers: str = settings.one_reading("the top layer is read")

    def adapter_flops(self, width: int, depth: int) -> float:
        """FLOPs of all adapters per token."""
        return depth * 2 * 2 * 2 * width * self.bottleneck

    def flops(self, network: Network, form: Form) -> tuple[float, float]:
        """Gradients pass through all layers; gradients of frozen kernels are not computed."""
        read = self.forward(network)
        added = self.length * self.adapter_flops(network.shape.width, network.shape.layers)
        return 2 * read + 3 * added, read + added


class Adapters(Adaptation):
    summary = "small bottlenecks in every layer learn, with layer norms and head; the pre-trained kernels stay"
    systems = ("Extra adaptor",)
    settings = Own

    def head(self, form: Form) -> str:
        if form is Form.GENERATION:
            raise NotApplicable(
                "no-head", "because this adaptation puts adapters into encoders only, not into decoders."
            )
        return super().head(form)

    def extend(self, network: Any, decoding: Any, settings: Any) -> Any:
        from ptmbench.bench.adapt.adapters.network import extension

        return extension(network.encoder, settings)


ADAPTATION = Adapters()
