"""The cloze model: two towers that meet at the word to be predicted.

Baevski, Edunov, Liu, Zettlemoyer and Auli (2019). Cloze-driven Pretraining of Self-attention Networks. EMNLP.
Taxonomy: contextual; Transformer encoder; cloze (MLM of every token); no extension.

BERT hides words to predict them and so learns from one in seven. Here every word is predicted from all others, and
none is hidden: one causal Transformer reads forwards and another backwards. For each word, a last attention layer
combines the first one's states before the word and the second one's states after it. After pre-training, this layer may
also see the word itself, and both towers are fine-tuned with it. There is one difference from the paper: tokens are
subwords with a lookup table, as in its "BPE" model; its other models build words from characters.

    L = - 1/T sum_t ln p(x_t | x_1 ... x_{t-1}, x_{t+1} ... x_T)

Nearest relative: ELMo (`elmo`), two separate language models, which predict x_t from either side and not from
both. A size has L layers in each tower and one over both, about twice the weights of BERT of that size, and a softmax
over the vocabulary for every token.
"""

from ptmbench.models.architectures.two_towers import EveryTokenConfig, towers
from ptmbench.models.card import MINI, SMALL, TINY, Architecture, Card, Reported, Representation, Size
from ptmbench.models.costs import EncoderModel
from ptmbench.models.pretrainable import Pretrainable
from ptmbench.models.text.tokenizers import Vocabulary

CARD = Card(
    title="Cloze (two towers)",
    citation="Baevski et al. (2019)",
    paper="Cloze-driven Pretraining of Self-attention Networks",
    url="https://arxiv.org/abs/1903.07785",
    year=2019,
    representation=Representation.CONTEXTUAL,
    architecture=Architecture.TRANSFORMER_ENCODER,
    objectives=("cloze",),
    loss="L_cloze",
    tokenizer="character",
    corpus="English web text from Common Crawl",
    parameters="177M (CNN base), 330M (CNN large)",
    reference="none to install: its equations, term by term",
    reported=(
        Reported(
            task="sst2", metric="accuracy", value=94.6, source="Baevski et al. (2019), section 6, GLUE, CNN large"
        ),
        Reported(task="conll2003", metric="f1", value=93.5, source="Baevski et al. (2019), section 6, NER, CNN large"),
    ),
)

SIZES = {"tiny": TINY, "mini": MINI, "small": SMALL, "base": Size(layers=6, width=768, heads=12, inner=3072)}

LEARNING_RATE = 3e-3
"""At width 128; `bench.engine.recipe` lowers it with the width. After 307k tokens of wikitext-2 in steps of 16 x 64,
the loss of tiny is 5.07 at 3e-3 and 5.68 at 1e-3: pre-normalisation tolerates this rate."""


def describe(size: Size, vocabulary: Vocabulary) -> EncoderModel:
    """Returns the configuration of the network of ``size``."""
    words = EveryTokenConfig(width=size.width, words=vocabulary.size)
    return EncoderModel(encoder=towers(size, vocabulary.size), heads=(words,))


def build(size: Size, vocabulary: Vocabulary) -> Pretrainable:
    """Builds the network of ``size``, initialised from Keras's global seed."""
    from ptmbench.models.layers.two_towers import built
    from ptmbench.models.objectives import cloze, lm

    encoder = built(describe(size, vocabulary).encoder, name="encoder")
    return Pretrainable(
        encoder=encoder,
        loss=cloze.Cloze(encoder),
        batches=lm.batches.of(vocabulary),
    )
