"""Compares the losses of MobileBERT's knowledge transfer from IB-BERT (mobilebert_pkt, ib_bert) with torch.

torch computes the authors' equations on the same tensors. `test_mobilebert.py` compares the networks.
"""

import numpy as np

from tests.models.frozen.progressive_transfer import LENGTHS, WIDTH, drawn
from tests.models.references.common import ABOUT, long, torch


def test_the_losses_of_progressive_transfer(hold):
    """The equations are those of `run_pretraining.py`.

    They have layer normalisation without parameters, means and variances, cross-entropies of attention, and labels that
    are the mean of the gold label and the teacher's distribution. Rows are cut to their tokens, so there is no padding.
    """
    nn = torch.nn.functional
    given = {name: torch.tensor(array) for name, array in drawn().items() if name != "labels"}
    ours = {name: given[f"own_{name}"].requires_grad_() for name in ("vectors", "scores", "words")}
    sums = dict.fromkeys(("feature_loss", "mean_loss", "variance_loss", "attention_loss"), 0.0)
    for row, count in enumerate(LENGTHS):
        own, other = ours["vectors"][row, :count], given["other_vectors"][row, :count]
        a, b = (nn.layer_norm(x, (WIDTH,), eps=1e-12) for x in (own, other))
        sums["feature_loss"] += 100 * ((a - b) ** 2).sum() / WIDTH
        sums["mean_loss"] += 5000 * ((own.mean(-1) - other.mean(-1)) ** 2).sum()
        variances = (x.var(-1, unbiased=False) for x in (own, other))
        sums["variance_loss"] += 5 * (next(variances) - next(variances)).abs().sum()
        own, other = (x[row, :, :count, :count] for x in (ours["scores"], given["other_scores"]))
        p = nn.softmax(other, -1)
        # The authors' cross-entropy minus the teacher's entropy, which has no gradient.
        sums["attention_loss"] += ((p * (nn.log_softmax(other, -1) - nn.log_softmax(own, -1))).sum(-1)).mean(0).sum()
    expected = {name: value / sum(LENGTHS) for name, value in sums.items()}
    sum(expected.values()).backward()
    hard = nn.one_hot(long(drawn()["labels"]), ours["words"].shape[-1])
    labels = 0.5 * nn.softmax(given["other_words"], -1) + 0.5 * hard
    (-(labels * nn.log_softmax(ours["words"], -1)).sum(-1)).mean().backward()
    expected = {name: np.asarray(value.detach()) for name, value in expected.items()}
    gradients = {f"{name}_gradient": np.asarray(tensor.grad) for name, tensor in ours.items()}
    hold("progressive_transfer", ABOUT, {}, expected | gradients)
