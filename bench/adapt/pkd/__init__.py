"""BERT-PKD: a student also imitates the [CLS] vectors of inner layers of its teacher.

Sun, Cheng, Gan and Liu (2019), "Patient Knowledge Distillation for BERT Model Compression". The student has M layers
and the teacher N. h_j is the [CLS] vector of the student's layer j. It imitates h'_g(j), the [CLS] vector of the
teacher's layer g(j):

    patience = 1 / ((M - 1) D) sum_{j=1..M-1} || h_j / ||h_j|| - h'_g(j) / ||h'_g(j)|| ||^2        a mean over texts
    loss = (1 - alpha) hard + alpha soft + beta patience
    skip: g(j) = j N / M        last: g(j) = N - M + j

``hard`` and ``soft`` are as in `distil`. For M = 6 and N = 12, skip chooses layers 2, 4, 6, 8 and 10 and last
chooses 7 to 11 (the paper's I_pt). The last layer imitates none, because it already learns from ``soft``.

This follows the authors' code (github.com/intersun/PKD-for-BERT-Model-Compression at 9e9e860): `src/KD_loss.py` for the
losses, `NLI_KD_training.py` for the layers, `src/argument_parser.py` for "skip". Their patience is the mean over
texts, layers and dimensions as above, so their ``beta`` from 10 to 1000 is meant for D = 768. The paper writes the sum.
Their ``soft`` is also a mean over the C classes, that is, 1/C of the one here.

Differences: the student starts with the weights of its row. Those are the teacher's first M layers, as in the paper,
if the row is a published model that was imported with ``--layers``. Encoders that read from left to right use the
vector of the last token. Student and teacher must have the same width, since the vectors are not projected:
`distilbert` has half of BERT's layers at BERT's width.

The controls are as in `distil`. ``alpha=0`` is the student alone, for any ``beta``. With a shuffled teacher, its
vectors come from the same text as its logits. Forms: classification and regression.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ptmbench.bench.adapt import distil, settings
from ptmbench.tasks.forms import Form


@dataclass(frozen=True, kw_only=True)
class Own(distil.Own):
    """Settings of `distil`, with the choice of the layers that the student imitates, and their weight."""

    beta: float = settings.setting(100.0, baked=True)
    """Weight of the inner layers in the loss."""
    chosen: str = settings.one_of("skip", "skip", "last")
    """Layers of the teacher that the student's inner layers imitate: equally spaced, or the last ones."""


class Pkd(distil.Distil):
    summary = "all weights of a student learn from gold answers, soft targets and a teacher's inner [CLS] vectors (PKD)"
    settings = Own
    heads = {form: f"heads.{form}" for form in (Form.CLASSIFICATION, Form.REGRESSION)}

    def taught(
        self, teacher: Any, student: Any, rows: Sequence[Any], examples: Sequence[Any], settings: Any, seed: int
    ) -> tuple[Sequence[Any], float]:
        from ptmbench.bench.adapt.pkd.network import taught

        return taught(teacher, student, rows, examples, settings, seed)

    def layer_loss(self, adapted: Any, encoding: Any, batch: Mapping[str, Any]) -> Any:
        from ptmbench.bench.adapt.pkd.network import inner, patience

        if "states" not in batch:
            return None
        return adapted.settings.beta * patience(inner(adapted, encoding, batch["tokens"]), batch["states"])


ADAPTATION = Pkd()
