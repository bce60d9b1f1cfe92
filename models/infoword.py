"""InfoWord: a BERT whose text vectors know the n-grams of the text.

Kong, de Masson d'Autume, Ling, Yu, Dai and Yogatama (2020). A Mutual Information Maximization Perspective of Language
Representation Learning. ICLR.
Taxonomy: contextual; Transformer encoder; DIM and MLM; no extension.

Skip-gram, BERT and XLNet all raise a lower bound of the mutual information of two parts of a text: a word and what is
around it. So other parts may be taken. As in Deep InfoMax for images, InfoWord adds the whole and a piece: the vector
of a text with an n-gram hidden has to find this n-gram among random ones, by the inner product with the vector that
the same encoder gives for each alone.

    L = L_MLM + L_DIM        L_DIM = - ln softmax_{x_ij among random n-grams}(g(x^)' g(x_ij)),   g: the vector of [CLS]

Nearest relative: BERT (`models.bert`), the same encoder without NSP and pooler, and with one text per row. The paper
takes negatives from the batch; here each row brings its own (`models.objectives.dim` says why).
"""

from models.card import MINI, SMALL, TINY, Architecture, Card, Reported, Representation, Size
from models.pretrainable import Pretrainable
from models.tokenizers import Vocabulary

CARD = Card(
    title="InfoWord",
    citation="Kong et al. (2020)",
    year=2020,
    representation=Representation.CONTEXTUAL,
    architecture=Architecture.TRANSFORMER_ENCODER,
    objectives=("dim", "mlm"),
    loss="L_MLM + L_DIM",
    tokenizer="wordpiece",
    corpus="English Wikipedia and BooksCorpus",
    parameters="as BERT (base and large)",
    reference="transformers' BertForPreTraining; DIM, term by term",
    reported=(Reported(task="glue", metric="average", value=81.1, source="Qiu et al. (2020), table 2, without WNLI"),),
)

SIZES = {"tiny": TINY, "mini": MINI, "small": SMALL, "base": Size(layers=12, width=768, heads=12, inner=3072)}


def build(size: Size, vocabulary: Vocabulary) -> Pretrainable:
    """The network of ``size``, freshly initialised from Keras's global seed."""
    from models.architectures.transformer_encoder import TransformerEncoder
    from models.objectives import dim

    encoder = TransformerEncoder(size, vocabulary.size, pooler=False, segments=1)
    return Pretrainable(
        encoder=encoder,
        loss=dim.DeepInfoMax(encoder),
        batches=lambda corpus, batch, length: dim.batches(corpus, vocabulary, batch, length),
    )


def parameters(size: Size, vocabulary: Vocabulary) -> tuple[int, int]:
    """Number of all weights of encoder and head, and of those in lookup tables."""
    D, F, V = size.width, size.inner, vocabulary.size
    tables = (V + size.length + 1) * D
    layer = 4 * (D * D + D) + (2 * D * F + F + D) + 4 * D
    return tables + 2 * D + size.layers * layer + D * D + 3 * D + V, tables


def encoder_flops_per_token(size: Size, length: int) -> float:
    """FLOPs of the encoder's forward pass per token of a row of ``length``: matrix products and attention."""
    D, F = size.width, size.inner
    return size.layers * (2 * (4 * D * D + 2 * D * F) + 4 * length * D)


def flops_per_token(size: Size, vocabulary: Vocabulary, length: int) -> float:
    """FLOPs of a training step per input token: three times the forward pass of text, n-grams and head."""
    D, V = size.width, vocabulary.size
    masked = -(-15 * length // 100) / length  # only these positions reach the vocabulary
    ngrams = max(4, length // 16) / length  # of 12 tokens each
    contrast = ngrams * (12 * encoder_flops_per_token(size, 12) + 2 * D)
    return 3 * (encoder_flops_per_token(size, length) + contrast + masked * 2 * (D * D + D * V))
