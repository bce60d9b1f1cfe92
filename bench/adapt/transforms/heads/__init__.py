"""Head pruning: the least important attention heads are removed from the network.

Michel, Levy and Neubig (2019), "Are Sixteen Heads Really Better than One?", section 4. The heads of all layers are
ranked by their importance for the loss (`bench.adapt.transforms.units` has the equation). The importances of each layer
are divided by their norm first. The share with the lowest rank is removed, but each layer keeps at least one head. By
default, nothing is trained after that, as in the paper; ``epochs`` trains the smaller network further.

The transform removes columns of the kernels of queries, keys and values, and rows of the output kernel, so the network
has fewer parameters and FLOPs. The result equals that of the whole network with these heads set to zero. As a control,
``by=random`` removes the same number of random heads. The difference between the two shows the value of the ranking.
"""

from ptmbench.bench.adapt.transforms.shrinking import UnitRemoval

TRANSFORM = UnitRemoval(
    summary="the attention heads that matter least for the loss are taken out",
    part="heads",
    noun="heads",
    together=True,
)
