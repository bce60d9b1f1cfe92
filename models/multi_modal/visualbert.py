"""VisualBERT: a BERT whose tokens attend to the regions of a picture.

Li, Yatskar, Yin, Hsieh and Chang (2019). VisualBERT: A Simple and Performant Baseline for Vision and Language. ArXiv.
Taxonomy: contextual; Transformer encoder; MLM and sentence-image prediction; multi-modal (survey, section 4.3.2).

A detector finds the regions of a picture and describes each by numbers. VisualBERT projects these to the width of token
vectors and appends them to the tokens, so that attention can learn which word means which region. The text of a row is
two captions. Hidden words are predicted with all regions visible, and the model predicts whether the second caption
belongs to the picture too.

    L = L_MLM + L_SIP        L_SIP = - ln p(both captions are of the picture | pooled vector)

Nearest relative: BERT (`bert`). For text without a picture, the two networks are the same. The authors begin with
BERT's weights; here all weights begin at random. Boxes only distinguish regions from padding, so the position of a
region has to be among its features.
"""

from ptmbench.models.architectures.region_encoder import FEATURES, region_encoder
from ptmbench.models.card import MINI, SMALL, TINY, Architecture, Card, Representation, Size
from ptmbench.models.costs import RegionModel
from ptmbench.models.layers.heads import ClassifierConfig, MaskedLmConfig
from ptmbench.models.objective import Sampler
from ptmbench.models.pretrainable import Pretrainable
from ptmbench.models.text.tokenizers import Vocabulary

CARD = Card(
    title="VisualBERT",
    citation="Li et al. (2019)",
    paper="VisualBERT: A Simple and Performant Baseline for Vision and Language",
    url="https://arxiv.org/abs/1908.03557",
    year=2019,
    representation=Representation.CONTEXTUAL,
    architecture=Architecture.TRANSFORMER_ENCODER,
    objectives=("mlm", "sip"),
    extensions=("multi-modal",),
    loss="L_MLM + L_SIP",
    tokenizer="wordpiece",
    corpus="COCO (100k images with 5 captions each)",
    parameters="as BERT (base)",
    reference="transformers' VisualBertForPreTraining",
    licence="MIT",
    reads=("tokens", "segments", "regions", "boxes", "alignments"),
)

SIZES = {"tiny": TINY, "mini": MINI, "small": SMALL, "base": Size(layers=12, width=768, heads=12, inner=3072)}

ADAM = {"epsilon": 1e-6}
"""As in BERT's code, which the authors' uses."""


def describe(size: Size, vocabulary: Vocabulary) -> RegionModel:
    """Returns the configuration of the network of ``size``. ``vocabulary`` has the number of features of regions."""
    D, V = size.width, vocabulary.size
    return RegionModel(
        encoder=region_encoder(size, V, vocabulary.widths.get("regions", FEATURES)),
        heads=(MaskedLmConfig(width=D, inner=D, vocabulary=V, absent=vocabulary.absent), ClassifierConfig(width=D)),
    )


def build(size: Size, vocabulary: Vocabulary) -> Pretrainable:
    """Builds the network of ``size``, initialised from Keras's global seed."""
    from ptmbench.models.layers.regions import built
    from ptmbench.models.objectives import _joint, mlm, sip

    described = describe(size, vocabulary)
    encoder = built(described.encoder, name="encoder")
    words, related = described.heads

    def batches(corpus, batch, length):
        captions = sip.Captions(corpus, vocabulary, length, described.encoder.count)

        def make(step, seed):
            rows, rng = captions(step, batch, seed)
            return mlm.noise(rows, rng, vocabulary)

        return make

    heads = [mlm.MaskedLm(words, encoder), sip.SentenceImage(related)]
    return Pretrainable(encoder=encoder, loss=_joint.Joint(encoder, heads), batches=Sampler(batches, ("regions",)))
