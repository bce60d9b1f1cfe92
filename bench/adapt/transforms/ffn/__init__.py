"""Feed-forward pruning: the least important neurons are removed from the network.

The neurons of each layer are ranked by their importance for the loss, computed as by Michel et al. (2019) for heads
(`bench.adapt.transforms.units` has the equation). Each layer loses the same share. DynaBERT (Hou et al., 2020, section
2.1) also makes feed-forward layers narrower by a ranking, but computes it from the weights of a neuron and their
gradients, and distils afterwards; this transform does not. By default, nothing is trained after the removal; ``epochs``
trains the smaller network further.

The transform removes columns of the first kernel and rows of the second one. The result equals that of the whole
network with these neurons set to zero. As a control, ``by=random`` removes the same number of random neurons. The
difference between the two shows the value of the ranking.
"""

from ptmbench.bench.adapt.transforms.shrinking import UnitRemoval

TRANSFORM = UnitRemoval(
    summary="the feed-forward neurons that matter least for the loss are taken out",
    part="inner",
    noun="neurons",
    together=False,
)
