"""InfoWord: a BERT whose text vectors identify the n-grams of the text.

Kong, de Masson d'Autume, Ling, Yu, Dai and Yogatama (2020). A Mutual Information Maximization Perspective of Language
Representation Learning. ICLR.
Taxonomy: contextual; Transformer encoder; DIM and MLM; no extension.

Skip-gram, BERT and XLNet all raise a lower bound of the mutual information of two parts of a text: a word and its
context. Other parts are possible too. As in Deep InfoMax for images, InfoWord adds the whole and a piece: the vector of
a text with a hidden n-gram has to find this n-gram among random ones. The same encoder gives a vector for each n-gram
alone, and vectors are compared by their inner product.

    L = L_MLM + L_DIM
    L_DIM = - ln softmax_{x_ij among random n-grams}(g(x^)' g(x_ij) / sqrt(D)),   g: the vector of [CLS]

Nearest relative: BERT (`bert`), the same encoder without NSP and pooler, and with one text per row. The paper
takes negatives from the batch; here each row has its own (`models.objectives.dim` gives the reason).
"""

from ptmbench.models.architectures.encoders import bert
from ptmbench.models.card import MINI, SMALL, TINY, Architecture, Card, Reported, Representation, Size
from ptmbench.models.costs import EncoderModel
from ptmbench.models.layers.heads import DeepInfoMaxConfig, MaskedLmConfig
from ptmbench.models.pretrainable import Pretrainable
from ptmbench.models.text.tokenizers import Vocabulary

CARD = Card(
    title="InfoWord",
    citation="Kong et al. (2020)",
    paper="A Mutual Information Maximization Perspective of Language Representation Learning",
    url="https://arxiv.org/abs/1910.08350",
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
    version=2,  # scores of n-grams are divided by the root of the width
)

SIZES = {"tiny": TINY, "mini": MINI, "small": SMALL, "base": Size(layers=12, width=768, heads=12, inner=3072)}


def describe(size: Size, vocabulary: Vocabulary) -> EncoderModel:
    """Returns the configuration of the network of ``size``."""
    D, V = size.width, vocabulary.size
    encoder = bert(size, V, pooler=False, segments=1)
    head = DeepInfoMaxConfig(
        mlm=MaskedLmConfig(width=D, inner=D, vocabulary=V, absent=vocabulary.absent), encoder=encoder
    )
    return EncoderModel(encoder=encoder, heads=(head,))


def build(size: Size, vocabulary: Vocabulary) -> Pretrainable:
    """Builds the network of ``size``, initialised from Keras's global seed."""
    from ptmbench.models.layers.transformers import built
    from ptmbench.models.objectives import dim

    described = describe(size, vocabulary)
    encoder = built(described.encoder, name="encoder")
    return Pretrainable(
        encoder=encoder,
        loss=dim.DeepInfoMax(described.heads[0].mlm, encoder),
        batches=dim.batches.of(vocabulary),
    )
