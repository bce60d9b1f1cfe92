"""Transformer to CNN: a small convolutional network that learns a task from a Transformer.

Chia, Witteveen and Andrews (2019). Transformer to CNN: Label-scarce distillation for efficient text classification.
Workshop on Compact Deep Neural Network Representation with Industrial Applications, NeurIPS 2018.
Taxonomy: contextual; convolutional network; no pre-training in the paper, MLM here; distillation.

In a Transformer every token attends to every other; to classify short texts, runs of a few words may be enough. Here
stacked filters over five neighbouring tokens replace attention, and the maxima of each layer represent the text. The
paper's network, BlendCNN, learns the logits of a fine-tuned Transformer from random weights: it is the random twin of
this model, `random-blend_cnn`, with `distil:match=logits`. MLM is our choice, so that the network can be pre-trained
too: a filter over a hidden token reads [MASK] in its place, so the token does not leak.

    L = L_MLM = - 1/|M| sum_{t in M} ln p(x_t | x with M hidden)

Nearest relative: RoBERTa (`roberta`), the same objective and rows over attention.
"""

from ptmbench.models.architectures.convolutional import convolutional
from ptmbench.models.card import MINI, SMALL, TINY, Architecture, Card, Representation, Size
from ptmbench.models.costs import EncoderModel
from ptmbench.models.layers.heads import MaskedLmConfig
from ptmbench.models.objective import Sampler
from ptmbench.models.pretrainable import Pretrainable
from ptmbench.models.text.tokenizers import Vocabulary

CARD = Card(
    title="BlendCNN",
    citation="Chia et al. (2019)",
    paper="Transformer to CNN: Label-scarce distillation for efficient text classification",
    url="https://arxiv.org/abs/1909.03508",
    year=2019,
    representation=Representation.CONTEXTUAL,
    architecture=Architecture.CONVOLUTION,
    objectives=("mlm",),
    extensions=("distillation",),
    loss="L_MLM; the paper has none but a task's",
    tokenizer="wordpiece",
    corpus="none: the paper trains on each task by itself",
    parameters="39 times fewer than its teacher's (Chia et al., 2019, abstract)",
    speed_up="300 times (Chia et al., 2019, abstract)",
    source_model="GPT",
    reference="its equations in NumPy",
)

SIZES = {"tiny": TINY, "mini": MINI, "small": SMALL, "base": Size(layers=8, width=768)}
"""The sizes of BERT, but the base size has the 8 layers of BlendCNN at BERT's width."""


def describe(size: Size, vocabulary: Vocabulary) -> EncoderModel:
    """Returns the configuration of the network of ``size``."""
    D, V = size.width, vocabulary.size
    words = MaskedLmConfig(width=D, inner=D, vocabulary=V, absent=vocabulary.absent)
    return EncoderModel(encoder=convolutional(size, V), heads=(words,))


def build(size: Size, vocabulary: Vocabulary) -> Pretrainable:
    """Builds the network of ``size``, initialised from Keras's global seed."""
    from ptmbench.models.layers.convolution import built
    from ptmbench.models.objectives import _joint, mlm, sampling

    described = describe(size, vocabulary)
    encoder = built(described.encoder, name="encoder")

    def batches(corpus, batch, length):
        texts = sampling.FullSentences(corpus, vocabulary, length)

        def make(step, seed):
            rows, _ = texts(step, batch, seed)
            return mlm.noise(rows, sampling.generator(seed, step), vocabulary)

        return make

    heads = [mlm.MaskedLm(words, encoder) for words in described.heads]
    loss = _joint.Joint(encoder, heads, unreached=("encoder/pooler/",))
    return Pretrainable(encoder=encoder, loss=loss, batches=Sampler(batches))
