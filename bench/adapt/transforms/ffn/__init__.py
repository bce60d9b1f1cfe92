"""Feed-forward pruning: the neurons that matter least are removed from the network.

The neurons of each layer are ranked by their importance for the loss, computed as Michel et al. (2019) do for heads
(`bench.adapt.transforms.units` has the equation), and each layer loses the same share. DynaBERT (Hou et al., 2020,
section 2.1) makes feed-forward layers narrower by a ranking too, but computes it from the weights of a neuron and their
gradients, and distils afterwards; this transform does not. Nothing is trained after the removal by default; ``epochs``
trains the smaller network further.

Columns of the first kernel go, and rows of the second one. The network gives what the whole network gives with these
neurons set to zero. ``by=random`` removes as many neurons that are drawn: what importance is worth is the difference.
"""

from ptmbench.bench.adapt.transforms.shrinking import UnitRemoval

TRANSFORM = UnitRemoval(
    summary="the feed-forward neurons that matter least for the loss are taken out",
    part="inner",
    noun="neurons",
    together=False,
)
