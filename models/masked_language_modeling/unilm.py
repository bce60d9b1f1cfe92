"""UniLM: one network that is an encoder, a language model and an encoder-decoder, by its masks.

Dong, Yang, Wang, Wei, Liu, Wang, Gao, Zhou and Hon (2019). Unified Language Model Pre-training for Natural Language
Understanding and Generation. NeurIPS.
Taxonomy: contextual; Transformer encoder; MLM under four masks, and NSP; no extension.

An attention mask decides which tokens attend to which, and with it whether a Transformer is an encoder or a decoder.
UniLM trains one BERT with four masks: all tokens attend to each other, or to the tokens before them, or to the tokens
after them, or the second text attends to the first and to its own tokens so far. MLM is the objective for each mask. So
the same weights encode text like BERT and generate text like a decoder: a [MASK] at the end is filled with the next
token.

    L = L_MLM + L_NSP,   L_MLM = - 1/|M| sum_{t in M} ln p(x_t | what t may see of x with M hidden)

Nearest relative: BERT (`bert`), which is UniLM with the first mask alone. The paper begins with BERT's weights; here
all weights begin at random, as for every model.
"""

from ptmbench.models.architectures.masked_encoder import MaskedModel, unilm
from ptmbench.models.card import MINI, SMALL, TINY, Architecture, Card, Reported, Representation, Size
from ptmbench.models.layers.heads import ClassifierConfig, MaskedLmConfig
from ptmbench.models.pretrainable import Pretrainable
from ptmbench.models.text.tokenizers import Vocabulary

_QA = "Dong et al. (2019), section 3.2, extractive, UniLM-large"
_TABLE_11 = "Dong et al. (2019), table 11, UniLM-large"

CARD = Card(
    title="UniLM",
    citation="Dong et al. (2019)",
    paper="Unified Language Model Pre-training for Natural Language Understanding and Generation",
    url="https://arxiv.org/abs/1905.03197",
    year=2019,
    representation=Representation.CONTEXTUAL,
    architecture=Architecture.TRANSFORMER_ENCODER,
    objectives=("unilm", "mlm", "nsp"),
    loss="L_MLM under four masks + L_NSP",
    tokenizer="wordpiece",
    corpus="English Wikipedia and BooksCorpus",
    parameters="340M",
    reference="transformers' BertForPreTraining under each of its masks",
    licence="MIT",
    reported=(
        Reported(task="glue", metric="average", value=80.8, source="Qiu et al. (2020), table 2, UniLM-large"),
        Reported(task="cola", metric="mcc", value=61.1, source=_TABLE_11),
        Reported(task="sst2", metric="accuracy", value=94.5, source=_TABLE_11),
        Reported(task="mrpc", metric="f1", value=90.0, source=_TABLE_11),
        Reported(task="stsb", metric="spearman", value=87.7, source=_TABLE_11),
        Reported(task="qqp", metric="f1", value=71.7, source=_TABLE_11),
        Reported(task="mnli", metric="accuracy", value=87.0, source=_TABLE_11),
        Reported(task="mnli_mm", metric="accuracy", value=85.9, source=_TABLE_11),
        Reported(task="qnli", metric="accuracy", value=92.7, source=_TABLE_11),
        Reported(task="rte", metric="accuracy", value=70.9, source=_TABLE_11),
        Reported(task="squad20", metric="f1", value=83.4, split="dev", source=_QA),
        Reported(task="coqa", metric="f1", value=84.9, split="dev", source=_QA),
    ),
)

SIZES = {"tiny": TINY, "mini": MINI, "small": SMALL, "base": Size(layers=12, width=768, heads=12, inner=3072)}


def describe(size: Size, vocabulary: Vocabulary) -> MaskedModel:
    """Returns the configuration of the network of ``size``."""
    D, V = size.width, vocabulary.size
    encoder = unilm(size, V)
    epsilon = encoder.stack.block.norm.epsilon
    words = MaskedLmConfig(width=D, inner=D, vocabulary=V, epsilon=epsilon, absent=vocabulary.absent)
    return MaskedModel(encoder=encoder, heads=(words, ClassifierConfig(width=D)))


def build(size: Size, vocabulary: Vocabulary) -> Pretrainable:
    """Builds the network of ``size``, initialised from Keras's global seed."""
    from ptmbench.models.layers.masked import built
    from ptmbench.models.objectives import _joint, mlm
    from ptmbench.models.objectives import unilm as objective

    described = describe(size, vocabulary)
    encoder = built(described.encoder, name="encoder")
    words, follows = described.heads
    head = mlm.MaskedLm(words, encoder)
    return Pretrainable(
        encoder=encoder,
        loss=_joint.Joint(encoder, [head, objective.NextSentence(follows)]),
        batches=objective.batches.of(vocabulary),
        decode=objective.make_decode(encoder, head, vocabulary.mask),
    )
