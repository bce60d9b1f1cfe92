"""AdaBERT: a small network of convolutional cells is searched for by gradient descent, for one task, and trained.

Chen, Li, Qiu, Wang, Li, Ding, Deng, Huang, Lin and Zhou (2020), "AdaBERT: Task-Adaptive BERT Compression with
Differentiable Neural Architecture Search". The adapted model is the teacher, with L layers.

1. Probes. A softmax classifier on the mean vector of each layer i of the teacher gives a soft label p_i(x).
2. Search. The student has K = 1 ... ``layers`` cells of one graph with ``nodes`` intermediate nodes
   (`models.layers.cells`), over the teacher's embeddings at a smaller ``width``. Every edge e has a score for each
   candidate operation o (`models.layers.cells_config.OPERATIONS`), and so has every depth k. In each step, with fresh
   noise g ~ Gumbel(0, 1) and a temperature T that falls from 1 to 0.2,

       y = softmax((log softmax(a) + g) / T)      forward: the one-hot vector of its largest entry

   Scores and weights of the operations learn together:

       loss    = sum_k y_k ((1 - gamma) CE(k) + gamma KD(k)) + beta cost
       CE(k)   = the loss of the task at the result of depth k, h_k, mean over the tokens
       KD(k)   = mean_x sum_(m <= k) w_m(x) CE(p_t(x), q_m(x))      t = ceil(m L / k), q_m: the prediction from h_m
       w_m(x)  = p_t(y | x) / sum_(n <= k) p_t(n)(y | x)            y: the label of x
       cost    = (sum_k k y_k / K_max) mean_e sum_o y_eo c_o        c = softmax(shares of parameters and FLOPs)

3. The architecture. The likeliest depth; of each edge the likeliest operation; of each node the two edges whose
   operations are the likeliest.
4. It is trained for ``tuning_epochs`` with (1 - gamma) CE(K) + gamma KD(K), from the weights that the search has left
   (``start=new``: from new ones). The weights with the best score on the selection split stay.

The cost of all of this is the cost of the transform. In the record, ``search_flops`` is that of 2 and ``probe_flops``
that of 1 and of asking the teacher.

Sources. We read the paper's abstract and settings, not its equations, and the authors' code (alibaba/EasyTransfer,
``modeling_adabert.py`` and the scripts that call it). From there are the graph, the candidates, the straight-through
Gumbel-softmax, the temperature, one head for all depths, ``gamma`` = 0.8, ``beta`` = 4, three nodes, eight cells, width
128, and the two edges of each node. That code has no probes: it reads soft labels of all layers from a file, weighs
them equally, and trains the result with CE alone. The weights w_m are the paper's as we remember it, and are not
checked against its text.

Our choices, apart from those in `models.layers.cells`: probes read the mean vector, and none is on the embeddings;
embeddings are projected on the principal components of the teacher's token vectors, where the code learns the
projection; the shares that make c_o (the code has numbers like them, from 0.0944 for zeros to 0.1076 for a window of
seven, without their origin; here they are 0.090 and 0.114); the scores learn ``score_rate`` times as fast as the
weights, by the same loss of the same batch; the search ends with its last
step, where the code takes the most accurate one; depth 0 is no candidate; no data are augmented. The paper searches
for 80 epochs, and the defaults here are fewer.

Controls: ``by=random`` draws depth, edges and operations, and trains that network from new weights, as ``start=new``
does with the found one; ``size`` makes it as large as another. ``hints=logits`` has the teacher's own prediction as
the only soft label, for the result alone, and ``hints=none`` has no teacher.
"""

from dataclasses import dataclass
from typing import Any

from ptmbench.bench.adapt.settings import Settings as Adapting
from ptmbench.bench.adapt.settings import one_of, positive, setting
from ptmbench.bench.adapt.transforms.contract import Material, Transformed
from ptmbench.bench.adapt.transforms.further import to_the_end


@dataclass(frozen=True, kw_only=True)
class Settings:
    """What ``adabert:name=value`` may change."""

    layers: int = setting(8, "from 1 to 64", lambda value: 1 <= value <= 64)
    """Cells at most."""
    nodes: int = setting(3, "from 1 to 16", lambda value: 1 <= value <= 16)
    """Intermediate nodes of a cell."""
    width: int = positive(128)
    """Dimensions of the student's vectors; the teacher's where it has fewer."""
    by: str = one_of("search", "search", "random")
    """How the architecture is found: by the search, or drawn."""
    size: int = setting(0)
    """Parameters of the cells of a drawn architecture, give or take a tenth; 0 for any number."""
    hints: str = one_of("probes", "probes", "logits", "none")
    """What the student learns of the teacher: soft labels of all its layers, its prediction, or nothing."""
    gamma: float = setting(0.8, "from 0 to 1", lambda value: 0 <= value <= 1)
    """Weight of the soft labels; the labels have the rest. Without effect under ``hints=none``."""
    beta: float = setting(4.0)
    """Weight of the cost of an architecture."""
    start: str = one_of("search", "search", "new")
    """The weights that the architecture is trained from."""
    probe_epochs: int = positive(10)
    """Passes over the training examples of the probes."""
    search_epochs: int = positive(8)
    """Passes over the training examples of the search."""
    tuning_epochs: int = positive(8)
    """Passes over the training examples of the training of the architecture."""
    max_steps: int = setting(0)
    """Training steps of each of the three at most; 0 is no limit."""
    learning_rate: float = setting(0.0)
    """Peak learning rate of the student's weights; 0 for the adaptation's."""
    score_rate: float = positive(20.0)
    """Learning rate of the scores of candidates, as a multiple of ``learning_rate``."""
    probe_rate: float = positive(0.01)
    """Peak learning rate of the probes."""

    @property
    def searches(self) -> bool:
        return self.by == "search"

    @property
    def epochs(self) -> int:
        """How many epochs of plain training cost as much, for estimates: roughly, since that depends on the teacher."""
        return (self.search_epochs if self.searches else 0) + self.tuning_epochs


class AdaBert:
    """`bench.adapt.transforms.contract.Transform`; trains."""

    summary = "a network of convolutional cells is searched for by gradient descent, and trained (AdaBERT)"
    settings = Settings
    version = 1
    compression = "search"
    rebuilds = False
    final = False

    def label(self, settings: Settings) -> str:
        found = "searched cells" if settings.searches else "random cells"
        taught = {"probes": "", "logits": ", taught by logits", "none": ", untaught"}[settings.hints]
        return f"{found}, width {settings.width}{taught}"

    def training(self, settings: Settings, adaptation: Adapting) -> Adapting:
        return to_the_end(settings, adaptation)

    def transformed(self, material: Material) -> Transformed:
        from ptmbench.bench.adapt.transforms.adabert.network import found

        return found(material)

    def prepare(self, adapted: Any, settings: Settings) -> None:
        """Nothing: the shape of the stack is all that the network needs."""


TRANSFORM = AdaBert()
