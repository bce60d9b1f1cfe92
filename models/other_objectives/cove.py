"""CoVe: context vectors that were learned in translation.

McCann, Bradbury, Xiong and Socher (2017). Learned in Translation: Contextualized Word Vectors. NIPS.
Taxonomy: contextual; LSTM; machine translation, which is supervised; no extension.

To translate a sentence, a model has to know what each of its words means there. So a translator is trained on pairs of
sentences, and its decoder is dropped: the states of the encoder, two layers that read both ways, are the vectors of
words in context. Tasks read them together with the plain word vectors, [word vector; CoVe]. No label of a task is
needed, but a corpus of texts with their translations.

    L = - 1/S sum_s ln p(y_s | y_{<s}, x)

There are two differences from the paper: word vectors are learned with the rest and are not GloVe's, and source, target
and output layer share one table. Nearest relative: ELMo (`elmo`), whose two directions are language models, which need
no pairs.
"""

from ptmbench.models.architectures import recurrent_translators
from ptmbench.models.card import Architecture, Card, Representation, Size
from ptmbench.models.costs import SequenceModel, TargetLength
from ptmbench.models.pretrainable import Pretrainable
from ptmbench.models.text.tokenizers import Vocabulary

CARD = Card(
    title="CoVe",
    citation="McCann et al. (2017)",
    paper="Learned in Translation: Contextualized Word Vectors",
    url="https://arxiv.org/abs/1708.00107",
    year=2017,
    representation=Representation.CONTEXTUAL,
    architecture=Architecture.LSTM,
    objectives=("translation",),
    loss="L_MT",
    tokenizer="word",
    corpus="WMT 2017 English-German (7 million pairs of sentences; smaller ones: Multi30k, IWSLT 2016)",
    parameters="2 layers of 300 cells in each direction, 300 per word",
    reference="none to install: its equations, written out in NumPy",
)

# Half of the width is for word vectors and half for the cells of both directions. The base size has the paper's 300
# cells in each direction.
SIZES = {
    "tiny": Size(layers=2, width=128, length=4096),
    "mini": Size(layers=2, width=256, length=4096),
    "small": Size(layers=2, width=512, length=4096),
    "base": Size(layers=2, width=1200, length=4096),
}

LEARNING_RATE = 3e-3
"""As for ELMo (`elmo`)."""


def describe(size: Size, vocabulary: Vocabulary) -> SequenceModel:
    """Returns the configuration of the network of ``size``."""
    encoder, decoder = recurrent_translators.cove(size, vocabulary)
    return SequenceModel(
        encoder=encoder, decoder=decoder, vocabulary=vocabulary.size, targets=TargetLength(share=1.0, marks=1)
    )


def build(size: Size, vocabulary: Vocabulary) -> Pretrainable:
    """Builds the network of ``size``, initialised from Keras's global seed."""
    from ptmbench.models.layers.translator import built
    from ptmbench.models.objectives import translation

    described = describe(size, vocabulary)
    encoder = built(described.encoder, name="encoder")
    decoder = built(described.decoder, encoder, name="decoder")
    loss = translation.Translation(encoder, decoder, vocabulary.cls)
    return Pretrainable(
        encoder=encoder,
        loss=loss,
        batches=translation.batches.of(vocabulary),
        decode=loss.decode,
        writer=loss,
    )
