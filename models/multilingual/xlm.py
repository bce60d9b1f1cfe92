"""XLM: one encoder for many languages, which learns from translations which words have the same meaning.

Lample and Conneau (2019). Cross-lingual Language Model Pretraining. NeurIPS.
Taxonomy: contextual; Transformer encoder; MLM and TLM; multilingual (survey, section 4.2).

A BERT over many languages shares its weights and pieces between them, but never learns that a German sentence means the
same as an English one. XLM puts a sentence and its translation into one row and hides words of both: to predict an
English word, it may use the German ones. Every token gets the vector of its language, and the positions of the
translation begin at 0 again, so that words at the same place of both sentences have the same position.

    L = L_MLM  in rows of one language        L = L_TLM  in rows of translations, in turn
    L_TLM = - 1/|M| sum_{t in M} ln p(x_t | sentence and translation with M hidden)

Nearest relative: BERT (`bert`), which has segments instead of languages, a dense layer and a norm before its
output layer, and NSP.
"""

from ptmbench.models.architectures.encoders import xlm
from ptmbench.models.card import MINI, SMALL, TINY, Architecture, Card, Reported, Representation, Size
from ptmbench.models.costs import EncoderModel
from ptmbench.models.layers.heads import TiedLmConfig
from ptmbench.models.pretrainable import Pretrainable
from ptmbench.models.text.tokenizers import Vocabulary

_TABLE_1 = "Lample and Conneau (2019), table 1, MLM + TLM, zero-shot from English"

CARD = Card(
    title="XLM (MLM + TLM)",
    citation="Lample & Conneau (2019)",
    paper="Cross-lingual Language Model Pretraining",
    url="https://arxiv.org/abs/1901.07291",
    aliases=("XLM",),
    year=2019,
    representation=Representation.CONTEXTUAL,
    architecture=Architecture.TRANSFORMER_ENCODER,
    objectives=("mlm", "tlm"),
    extensions=("multilingual",),
    loss="L_MLM + L_TLM, in turn",
    tokenizer="bpe",
    corpus="Wikipedia in 15 languages; translations from MultiUN, IIT Bombay, OPUS",
    parameters="250M",
    reference="transformers' XLMWithLMHeadModel",
    licence="CC BY-NC 4.0",
    reads=("tokens", "languages", "positions", "documents"),
    reported=(Reported(task="xnli", metric="accuracy", value=85.0, source=_TABLE_1),),
)

SIZES = {"tiny": TINY, "mini": MINI, "small": SMALL, "base": Size(layers=12, width=1024, heads=8, inner=4096)}


def describe(size: Size, vocabulary: Vocabulary) -> EncoderModel:
    """Returns the configuration of the network of ``size``."""
    languages = len(vocabulary.symbols.get("languages", ()))
    head = TiedLmConfig(width=size.width, vocabulary=vocabulary.size, absent=vocabulary.absent)
    return EncoderModel(encoder=xlm(size, vocabulary.size, languages), heads=(head,))


def build(size: Size, vocabulary: Vocabulary) -> Pretrainable:
    """Builds the network of ``size``, initialised from Keras's global seed."""
    from ptmbench.models.layers.transformers import built
    from ptmbench.models.objectives import _joint, mlm, tlm

    described = describe(size, vocabulary)
    encoder = built(described.encoder, name="encoder")
    head = mlm.TiedLm(described.heads[0], encoder)
    return Pretrainable(
        encoder=encoder,
        loss=_joint.Joint(encoder, [head]),
        batches=tlm.batches.of(vocabulary),
    )
