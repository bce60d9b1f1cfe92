"""BERT-PKD: a student also imitates the [CLS] vectors of inner layers of its teacher.

Sun, Cheng, Gan and Liu (2019), "Patient Knowledge Distillation for BERT Model Compression". h_j is the [CLS] vector of
layer j of the student, of M layers, and h'_g(j) the one of the layer of the teacher, of N layers, that it imitates:

    patience = 1 / ((M - 1) D) sum_{j=1..M-1} || h_j / ||h_j|| - h'_g(j) / ||h'_g(j)|| ||^2        a mean over texts
    loss = (1 - alpha) hard + alpha soft + beta patience
    skip: g(j) = j N / M        last: g(j) = N - M + j

``hard`` and ``soft`` are as in `distil`. For M = 6 and N = 12, skip chooses layers 2, 4, 6, 8 and 10 and last
chooses 7 to 11 (the paper's I_pt). The last layer imitates none: it learns from ``soft`` already.

Read in the authors' code (github.com/intersun/PKD-for-BERT-Model-Compression at 9e9e860): `src/KD_loss.py` for the
losses, `NLI_KD_training.py` for the layers, `src/argument_parser.py` for "skip". Their patience is the mean over
texts, layers and dimensions that stands above, so their ``beta`` from 10 to 1000 belongs to D = 768; the paper writes
the sum. Their ``soft`` is a mean over classes too, a C-th of the one here.

Not as there: the student begins with the weights of its row, and not with the teacher's first M layers. Encoders that
read from left to right give the vector of the last token. Student and teacher have the same width, since nothing
projects the vectors: `distilbert` has half of BERT's layers at BERT's width.

The controls are as in `distil`. ``alpha=0`` is the student alone, whatever ``beta``; a shuffled teacher's vectors
come from the same text as its logits. Forms: classification and regression.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ptmbench.bench.adapt import distil, settings
from ptmbench.tasks.forms import Form


@dataclass(frozen=True, kw_only=True)
class Own(distil.Own):
    """Settings of `distil`, with the weight and the choice of the layers that the student imitates."""

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
