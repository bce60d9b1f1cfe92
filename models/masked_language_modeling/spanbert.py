"""SpanBERT: BERT that hides spans and predicts them from their boundaries.

Joshi, Chen, Liu, Weld, Zettlemoyer and Levy (2020). SpanBERT: Improving Pre-training by Representing and Predicting
Spans. TACL 8.
Taxonomy: contextual; Transformer encoder; MLM of spans and SBO; no extension.

Answers, names and mentions are spans. So whole spans of words are hidden, of geometric length (3.8 words on average).
In addition to MLM, every hidden token is predicted a second time, from only the vectors of the two tokens around the
span and its place in the span. A row is one long text: the encoder learns more without next-sentence prediction and its
short, unrelated halves.

    L = L_MLM + L_SBO        L_SBO = - 1/|M| sum_{i in M} ln p(x_i | h_{s-1}, h_{e+1}, p_{i-s+1})

Nearest relative: BERT (`bert`), the same encoder, but without NSP and pooler: the pooled vector is the unchanged vector
of [CLS]. A row that reaches the end of its document continues with the next document after a [SEP].
"""

from ptmbench.models.architectures.encoders import bert
from ptmbench.models.card import MINI, SMALL, TINY, Architecture, Card, Reported, Representation, Size
from ptmbench.models.costs import EncoderModel
from ptmbench.models.layers.heads import MaskedLmConfig, SpanBoundaryConfig
from ptmbench.models.objective import Sampler
from ptmbench.models.pretrainable import Pretrainable
from ptmbench.models.text.tokenizers import Vocabulary

_TABLE_1 = "Joshi et al. (2020), table 1, SpanBERT (large)"
_TABLE_5 = "Joshi et al. (2020), table 5, SpanBERT (large)"

CARD = Card(
    title="SpanBERT",
    citation="Joshi et al. (2020)",
    paper="SpanBERT: Improving Pre-training by Representing and Predicting Spans",
    url="https://arxiv.org/abs/1907.10529",
    year=2020,
    representation=Representation.CONTEXTUAL,
    architecture=Architecture.TRANSFORMER_ENCODER,
    objectives=("mlm", "sbo"),
    loss="L_MLM + L_SBO",
    tokenizer="wordpiece",
    corpus="BooksCorpus and English Wikipedia",
    parameters="340M (large, as BERT)",
    reference="transformers' BertForPreTraining; the span boundary objective, term by term",
    licence="CC BY-NC 4.0",
    reported=(
        Reported(task="glue", metric="average", value=82.8, source=_TABLE_5),
        Reported(task="squad11", metric="f1", value=94.6, source=_TABLE_1),
        Reported(task="squad20", metric="f1", value=88.7, source=_TABLE_1),
        Reported(task="cola", metric="mcc", value=64.3, source=_TABLE_5),
        Reported(task="sst2", metric="accuracy", value=94.8, source=_TABLE_5),
        Reported(task="mrpc", metric="f1", value=90.9, source=_TABLE_5),
        Reported(task="stsb", metric="pearson", value=89.9, source=_TABLE_5),
        Reported(task="qqp", metric="f1", value=71.9, source=_TABLE_5),
        Reported(task="mnli", metric="accuracy", value=88.1, source=_TABLE_5),
        Reported(task="qnli", metric="accuracy", value=94.3, source=_TABLE_5),
        Reported(task="rte", metric="accuracy", value=79.0, source=_TABLE_5),
    ),
)

SIZES = {"tiny": TINY, "mini": MINI, "small": SMALL, "base": Size(layers=12, width=768, heads=12, inner=3072)}


def places(size: Size) -> int:
    """Returns the width of the positions inside a span: 200 as in the authors' code, but at most D."""
    return min(200, size.width)


def describe(size: Size, vocabulary: Vocabulary) -> EncoderModel:
    """Returns the configuration of the network of ``size``."""
    D, V = size.width, vocabulary.size
    heads = (
        MaskedLmConfig(width=D, inner=D, vocabulary=V, absent=vocabulary.absent),
        SpanBoundaryConfig(width=D, places_width=places(size), vocabulary=V),
    )
    return EncoderModel(encoder=bert(size, V, pooler=False, segments=1), heads=heads)


def build(size: Size, vocabulary: Vocabulary) -> Pretrainable:
    """Builds the network of ``size``, initialised from Keras's global seed."""
    from ptmbench.models.layers.transformers import built
    from ptmbench.models.objectives import _joint, masking, mlm, sampling, sbo

    described = describe(size, vocabulary)
    encoder = built(described.encoder, name="encoder")

    def batches(corpus, batch, length):
        texts = sampling.FullSentences(corpus, vocabulary, length)

        def make(step, seed):
            rows, where = texts(step, batch, seed)
            rng = sampling.generator(seed, step)
            rows, chosen = masking.spans(rows, sampling.heads(corpus, where), rng, vocabulary)
            return rows | sbo.boundaries(chosen)

        return make

    words, edges = described.heads
    heads = [mlm.MaskedLm(words, encoder), sbo.SpanBoundary(edges, encoder)]
    return Pretrainable(encoder=encoder, loss=_joint.Joint(encoder, heads), batches=Sampler(batches))
