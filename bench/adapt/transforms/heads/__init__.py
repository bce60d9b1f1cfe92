"""Head pruning: the attention heads that matter least are removed from the network.

Michel, Levy and Neubig (2019), "Are Sixteen Heads Really Better than One?", section 4: the heads of all layers are
ranked by their importance for the loss (`bench.adapt.transforms.units` has the equation), each layer's importances
divided by their norm, and the share with the lowest rank is removed. One head of each layer stays at least. Nothing is
trained after that by default, as in the paper; ``epochs`` trains the smaller network further.

Columns of the kernels of queries, keys and values go, and rows of the output's kernel, so the network has fewer
parameters and FLOPs. It gives what the whole network gives with these heads set to zero. ``by=random`` removes as many
heads that are drawn: what importance is worth is the difference.
"""

from ptmbench.bench.adapt.transforms.shrinking import UnitRemoval

TRANSFORM = UnitRemoval(
    summary="the attention heads that matter least for the loss are taken out",
    part="heads",
    noun="heads",
    together=True,
)
