"""ERNIE (Tsinghua): a BERT that reads what a knowledge graph says of the entities that a text mentions.

Zhang, Han, Liu, Jiang, Sun and Liu (2019). ERNIE: Enhanced Language Representation with Informative Entities. ACL.
Taxonomy: contextual; Transformer encoder; MLM, NSP and dEA; knowledge (survey, section 4.1).

That Bob Dylan is a song writer and a book author stands in a knowledge graph, and seldom in the sentence that mentions
him. TransE has made a vector of every entity of the graph. ERNIE's upper layers keep these vectors in a second stream
beside the tokens: each stream attends to itself, and where a mention begins both meet in one inner layer. To learn to
use them, the model says which entity a mention means when it is shown a wrong one, or none.

    L = L_MLM + L_NSP + L_dEA
    L_dEA = - 1/|M| sum_{t in M} ln p(e_t | w_t),  M the mentions, of which 5 % have a wrong entity and 15 % none

Nearest relative: BERT (`bert`), which is the lower half, with the same MLM and NSP. The authors begin with
BERT's weights; here all but the entities' vectors begins afresh.
"""

from ptmbench.models.architectures.fused_entities import WIDTH, fused_entities
from ptmbench.models.card import MINI, SMALL, TINY, Architecture, Card, Reported, Representation, Size
from ptmbench.models.costs import EncoderModel
from ptmbench.models.layers.heads import ClassifierConfig, EntitiesConfig, MaskedLmConfig
from ptmbench.models.objective import Sampler
from ptmbench.models.pretrainable import Pretrainable
from ptmbench.models.text.tokenizers import Vocabulary

CARD = Card(
    title="ERNIE (THU)",
    citation="Zhang et al. (2019)",
    paper="ERNIE: Enhanced Language Representation with Informative Entities",
    url="https://arxiv.org/abs/1905.07129",
    year=2019,
    representation=Representation.CONTEXTUAL,
    architecture=Architecture.TRANSFORMER_ENCODER,
    objectives=("mlm", "nsp", "dea"),
    extensions=("knowledge",),
    loss="L_MLM + L_NSP + L_dEA",
    tokenizer="wordpiece",
    corpus="English Wikipedia (4,500M subwords, 140M entities), TransE over Wikidata (5M entities, 24M triples)",
    parameters="114M",
    reference="the authors' BertForPreTraining (thunlp/ERNIE 514cbe4)",
    licence="MIT",
    reads=("tokens", "segments", "entities"),
    reported=(Reported(task="open_entity", metric="micro_f1", value=75.56, source="Zhang et al. (2019), table 3"),),
)

SIZES = {"tiny": TINY, "mini": MINI, "small": SMALL, "base": Size(layers=12, width=768, heads=12, inner=3072)}

ADAM = {"epsilon": 1e-6}
"""As in the authors' code, which is BERT's."""


def describe(size: Size, vocabulary: Vocabulary) -> EncoderModel:
    """What the network of ``size`` is made of. Vectors of entities are as wide as ``vocabulary`` says, and where it
    knows none as wide as the authors' are."""
    D, V = size.width, vocabulary.size
    E, entities = vocabulary.widths.get("entities", WIDTH), len(vocabulary.symbols.get("entities", ()))
    return EncoderModel(
        encoder=fused_entities(size, V, entities, E),
        heads=(
            MaskedLmConfig(width=D, inner=D, vocabulary=V, absent=vocabulary.absent),
            ClassifierConfig(width=D),
            EntitiesConfig(width=D, entities=E),
        ),
    )


def build(size: Size, vocabulary: Vocabulary) -> Pretrainable:
    """The network of ``size``, freshly initialised from Keras's global seed.

    Its ``batches(corpus, ...)`` set the frozen table of entities to the vectors of the corpus: `CorpusUnfit` where it
    has none, or vectors of other entities or widths than ``vocabulary``.
    """
    from ptmbench.models.layers.aggregators import built
    from ptmbench.models.objectives import _joint, dea, mlm, nsp, sampling

    described = describe(size, vocabulary)
    encoder = built(described.encoder, name="encoder")

    def batches(corpus, batch, length):
        dea.fill(encoder.entities, corpus)
        pairs = sampling.Pairs(corpus, vocabulary, length, nsp.RANDOM_SECOND, layers=("entities",))

        def make(step, seed):
            rows, rng = pairs(step, batch, seed)
            return mlm.noise(dea.noise(rows, rng), rng, vocabulary)

        return make

    words, follows, entities = described.heads
    heads = [mlm.MaskedLm(words, encoder), nsp.NextSentence(follows), dea.DenoisingEntities(entities, encoder)]
    return Pretrainable(encoder=encoder, loss=_joint.Joint(encoder, heads), batches=Sampler(batches, ("entities",)))
