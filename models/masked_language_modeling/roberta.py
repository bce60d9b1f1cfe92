"""RoBERTa: BERT trained longer, on more text, and on MLM alone.

Liu, Ott, Goyal, Du, Joshi, Chen, Levy, Lewis, Zettlemoyer and Stoyanov (2019). RoBERTa: A Robustly Optimized BERT
Pretraining Approach. arXiv:1907.11692.
Taxonomy: contextual; Transformer encoder; MLM with dynamic masking; no extension.

The authors repeat BERT and vary one choice at a time. What helps: no next-sentence prediction, rows packed with full
sentences across documents, a new mask each time a text is seen, larger batches, byte-level BPE, ten times the text.
The network stays the same, without segments, because there is one text per row. Of these choices, rows, masks and loss
belong to the model here; batch, budget and text are the same for every model.

    L = L_MLM = - 1/|M| sum_{t in M} ln p(x_t | x with M hidden)

Nearest relative: BERT (`bert`). RoBERTa has neither NSP nor pooler: the pooled vector is the unchanged vector of [CLS],
and [SEP] separates the texts of downstream pairs.
"""

from ptmbench.models.architectures.encoders import bert
from ptmbench.models.card import MINI, SMALL, TINY, Architecture, Card, Reported, Representation, Size
from ptmbench.models.costs import EncoderModel
from ptmbench.models.layers.heads import MaskedLmConfig
from ptmbench.models.objective import Sampler
from ptmbench.models.pretrainable import Pretrainable
from ptmbench.models.text.tokenizers import Vocabulary

_SURVEY = "Qiu et al. (2020), table 2, RoBERTa-large, an ensemble"
_TABLE_5 = "Liu et al. (2019), table 5, RoBERTa-large, median of five runs"
_TABLE_6 = "Liu et al. (2019), table 6, RoBERTa-large"

CARD = Card(
    title="RoBERTa",
    citation="Liu et al. (2019)",
    paper="RoBERTa: A Robustly Optimized BERT Pretraining Approach",
    url="https://arxiv.org/abs/1907.11692",
    year=2019,
    representation=Representation.CONTEXTUAL,
    architecture=Architecture.TRANSFORMER_ENCODER,
    objectives=("mlm",),
    loss="L_MLM",
    tokenizer="bpe",
    corpus="BooksCorpus, English Wikipedia, CC-News, OpenWebText and Stories (160 GB)",
    parameters="125M (base), 355M (large)",
    reference="transformers' RobertaForMaskedLM",
    licence="MIT",
    reported=(
        Reported(task="glue", metric="average", value=88.5, source=_SURVEY),
        Reported(task="mnli", metric="accuracy", value=90.2, split="dev", source=_TABLE_5),
        Reported(task="mnli_mm", metric="accuracy", value=90.2, split="dev", source=_TABLE_5),
        Reported(task="qnli", metric="accuracy", value=94.7, split="dev", source=_TABLE_5),
        Reported(task="qqp", metric="accuracy", value=92.2, split="dev", source=_TABLE_5),
        Reported(task="rte", metric="accuracy", value=86.6, split="dev", source=_TABLE_5),
        Reported(task="sst2", metric="accuracy", value=96.4, split="dev", source=_TABLE_5),
        Reported(task="mrpc", metric="accuracy", value=90.9, split="dev", source=_TABLE_5),
        Reported(task="cola", metric="mcc", value=68.0, split="dev", source=_TABLE_5),
        Reported(task="stsb", metric="pearson", value=92.4, split="dev", source=_TABLE_5),
        Reported(task="squad11", metric="f1", value=94.6, split="dev", source=_TABLE_6),
        Reported(task="squad20", metric="f1", value=89.4, split="dev", source=_TABLE_6),
    ),
)

SIZES = {"tiny": TINY, "mini": MINI, "small": SMALL, "base": Size(layers=12, width=768, heads=12, inner=3072)}

ADAM = {"beta2": 0.98, "epsilon": 1e-6}
"""Liu et al. (2019), section 2.4 and table 9."""

EPSILON = 1e-5
"""Epsilon of the layer norms, as in the authors' code (fairseq). BERT has 1e-12."""


def describe(size: Size, vocabulary: Vocabulary) -> EncoderModel:
    """Returns the configuration of the network of ``size``."""
    D, V = size.width, vocabulary.size
    head = MaskedLmConfig(width=D, inner=D, vocabulary=V, epsilon=EPSILON, absent=vocabulary.absent)
    return EncoderModel(encoder=bert(size, V, pooler=False, segments=1, epsilon=EPSILON), heads=(head,))


def build(size: Size, vocabulary: Vocabulary) -> Pretrainable:
    """Builds the network of ``size``, initialised from Keras's global seed."""
    from ptmbench.models.layers.transformers import built
    from ptmbench.models.objectives import _joint, mlm, sampling

    described = describe(size, vocabulary)
    encoder = built(described.encoder, name="encoder")

    def batches(corpus, batch, length):
        texts = sampling.FullSentences(corpus, vocabulary, length)

        def make(step, seed):
            rows, _ = texts(step, batch, seed)
            return mlm.noise(rows, sampling.generator(seed, step), vocabulary)

        return make

    head = mlm.MaskedLm(described.heads[0], encoder)
    return Pretrainable(encoder=encoder, loss=_joint.Joint(encoder, [head]), batches=Sampler(batches))
