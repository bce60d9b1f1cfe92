"""AdaBERT: a small network of convolutional cells is searched for by gradient descent, for one task, and trained.

Chen, Li, Qiu, Wang, Li, Ding, Deng, Huang, Lin and Zhou (2020), "AdaBERT: Task-Adaptive BERT Compression with
Differentiable Neural Architecture Search". The adapted model is the teacher, with L layers.

1. Probes. A softmax classifier on the mean vector of each layer i of the teacher gives a soft label p_i(x).
2. Search. The student has K = 1 ... ``layers`` cells of one graph with ``nodes`` intermediate nodes
   (`models.layers.cells`), over the teacher's embeddings at a smaller ``width``. Every edge e has a score for each
   candidate operation o (`models.layers.cells_config.OPERATIONS`), and every depth k has a score. Each step draws noise
   g ~ Gumbel(0, 1). The temperature T falls from 1 to 0.2. With the scores a,

       y = softmax((log softmax(a) + g) / T)      forward: the one-hot vector of its largest entry

   Scores and weights of the operations learn together:

       loss    = sum_k y_k ((1 - gamma) CE(k) + gamma KD(k)) + beta cost
       CE(k)   = the loss of the task at the result of depth k, h_k, mean over the tokens
       KD(k)   = mean_x sum_(m <= k) w_m(x) CE(p_t(x), q_m(x))      t = ceil(m L / k), q_m: the prediction from h_m
       w_m(x)  = p_t(y | x) / sum_(n <= k) p_t(n)(y | x)            y: the label of x
       cost    = (sum_k k y_k / K_max) mean_e sum_o y_eo c_o        c = softmax(shares of parameters and FLOPs)

3. The architecture. It has the most likely depth and the most likely operation of each edge. Each node keeps the two
   edges whose operations are the most likely.
4. The architecture is trained for ``tuning_epochs`` with (1 - gamma) CE(K) + gamma KD(K), from the weights of the
   search (``start=new``: from new weights). The weights with the best score on the selection split are returned.

The cost of the transform includes all four. In the record, ``search_flops`` is the cost of 2, and ``probe_flops`` is
the cost of 1 and of the teacher's predictions.

Sources. We read the paper's abstract and settings, not its equations, and the authors' code (alibaba/EasyTransfer,
``modeling_adabert.py`` and the scripts that call it). The code is the source of the graph, the candidates, the
straight-through Gumbel-softmax, the temperature, one head for all depths, ``gamma`` = 0.8, ``beta`` = 4, three nodes,
eight cells, width 128, and the two edges of each node. It has no probes: it reads soft labels of all layers from a
file, gives them equal weights, and trains the result with CE alone. The weights w_m are the paper's from memory, not
checked against its text.

Our choices, in addition to those in `models.layers.cells`:

- Probes read the mean vector. The embeddings have no probe.
- Embeddings are projected on the principal components of the teacher's token vectors; the code learns the projection.
- c_o is computed from shares. The code has similar numbers without their origin, from 0.0944 for zeros to 0.1076 for a
  window of seven; here they are 0.090 and 0.114.
- The scores learn ``score_rate`` times as fast as the weights, from the same loss of the same batch. Weight decay
  applies to the scores of edges, but not to those of depths.
- The search returns its last step; the code takes the most accurate one.
- Depth 0 is not a candidate, and there is no data augmentation.
- The paper searches for 80 epochs; the default here is lower.

Controls: ``by=random`` draws depth, edges and operations, and trains that network from new weights, as ``start=new``
does with the searched one; ``size`` sets its number of parameters. With ``hints=logits`` the only soft label is the
teacher's own prediction, for the result alone. ``hints=none`` has no teacher.
"""

from dataclasses import dataclass
from typing import Any

from ptmbench.bench.adapt.settings import Settings as Adapting
from ptmbench.bench.adapt.settings import check_effect, one_of, positive, setting
from ptmbench.bench.adapt.transforms.contract import Material, Transformed
from ptmbench.bench.adapt.transforms.further import no_lesson, without_early_stopping
from ptmbench.tasks.forms import Form


@dataclass(frozen=True, kw_only=True)
class Settings:
    """The settings of ``adabert:name=value``."""

    layers: int = setting(8, "from 1 to 64", lambda value: 1 <= value <= 64)
    """Maximum number of cells."""
    nodes: int = setting(3, "from 1 to 16", lambda value: 1 <= value <= 16)
    """Intermediate nodes of a cell."""
    width: int = positive(128)
    """Dimensions of the student's vectors; the teacher's width if that is smaller."""
    by: str = one_of("search", "search", "random")
    """How the architecture is chosen: by the search or at random."""
    size: int = setting(0)
    """Parameters of the cells of a random architecture, within 10 %; 0 for any number."""
    hints: str = one_of("probes", "probes", "logits", "none")
    """What the student learns from the teacher: soft labels of all its layers, its prediction, or nothing."""
    gamma: float = setting(0.8, "from 0 to 1", lambda value: 0 <= value <= 1)
    """Weight of the soft labels in the loss; the gold labels have 1 - gamma. No effect with ``hints=none``."""
    beta: float = setting(4.0)
    """Weight of the cost of an architecture."""
    start: str = one_of("search", "search", "new")
    """The initial weights of the training of the architecture."""
    probe_epochs: int = positive(10)
    """Passes over the training examples for the probes."""
    search_epochs: int = positive(8)
    """Passes over the training examples for the search."""
    tuning_epochs: int = positive(8)
    """Passes over the training examples for the training of the architecture."""
    max_steps: int = setting(0)
    """Maximum number of steps of each of these trainings; 0 for no limit."""
    learning_rate: float = setting(0.001)
    """Peak learning rate of the student's weights, most of which are new; 0 for the adaptation's."""
    score_rate: float = positive(20.0)
    """Learning rate of the scores of candidates, as a multiple of ``learning_rate``."""
    probe_rate: float = positive(0.01)
    """Peak learning rate of the probes."""

    def __post_init__(self) -> None:
        if self.searches:
            check_effect(self, "by=search", "size")

    @property
    def searches(self) -> bool:
        return self.by == "search"

    @property
    def epochs(self) -> int:
        """The number of epochs of plain training with about the same cost, for estimates. The true cost depends on the
        teacher."""
        return (self.search_epochs if self.searches else 0) + self.tuning_epochs


class AdaBert:
    """A `bench.adapt.transforms.contract.Transform` with training."""

    summary = "a network of convolutional cells is searched for by gradient descent, and trained (AdaBERT)"
    settings = Settings
    version = 2  # 2: with a learning rate of its own by default
    compression = "search"
    rebuilds = False
    final = False

    def label(self, settings: Settings) -> str:
        found = "searched cells" if settings.searches else "random cells"
        taught = {"probes": "", "logits": ", taught by logits", "none": ", untaught"}[settings.hints]
        return f"{found}, width {settings.width}{taught}"

    def training(self, settings: Settings, adaptation: Adapting) -> Adapting:
        return without_early_stopping(settings, adaptation)

    def obstacle(self, adaptation: str, form: Form) -> str:
        return no_lesson(adaptation, form, (Form.CLASSIFICATION,), "probabilities of classes")

    def transformed(self, material: Material) -> Transformed:
        from ptmbench.bench.adapt.transforms.adabert.network import search_and_train

        return search_and_train(material)

    def prepare(self, adapted: Any, settings: Settings) -> None:
        """Does nothing, because the shape of the stack fully describes the network."""


TRANSFORM = AdaBert()
