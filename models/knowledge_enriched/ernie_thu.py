"""ERNIE (Tsinghua): a BERT that reads vectors of the entities in a text, learnt from a knowledge graph.

Zhang, Han, Liu, Jiang, Sun and Liu (2019). ERNIE: Enhanced Language Representation with Informative Entities. ACL.
Taxonomy: contextual; Transformer encoder; MLM, NSP and dEA; knowledge (survey, section 4.1).

A knowledge graph says that Bob Dylan is a song writer and a book author; a sentence that mentions him seldom does.
TransE has learnt a vector for every entity of the graph. ERNIE's upper layers have these vectors in a second stream
parallel to the tokens. Each stream attends to itself, and an inner layer joins both at the first token of a mention. To
learn to use the vectors, the model is given a wrong entity or none for some mentions, and predicts the right one.

    L = L_MLM + L_NSP + L_dEA
    L_dEA = - 1/|M| sum_{t in M} ln p(e_t | w_t),  M the mentions, of which 5 % have a wrong entity and 15 % none

Nearest relative: BERT (`bert`), which is the lower half, with the same MLM and NSP. The authors begin with
BERT's weights; here all weights except the entity vectors begin at random.
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
    """Returns the configuration of the network of ``size``. Entity vectors have the width in ``vocabulary``, or else
    the authors' width."""
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
    """Builds the network of ``size``, initialised from Keras's global seed.

    Its ``batches(corpus, ...)`` set the frozen table of entities to the vectors of the corpus. They raise `CorpusUnfit`
    if the corpus has no vectors, or if their entities or width differ from those in ``vocabulary``.
    """
    from ptmbench.models.layers.aggregators import built
    from ptmbench.models.objectives import _joint, dea, mlm, nsp, sampling

    described = describe(size, vocabulary)
    encoder = built(described.encoder, name="encoder")

    def batches(corpus, batch, length):
        dea.load_entity_vectors(encoder.entities, corpus)
        pairs = sampling.Pairs(corpus, vocabulary, length, nsp.RANDOM_SECOND, layers=("entities",))

        def make(step, seed):
            rows, rng = pairs(step, batch, seed)
            return mlm.noise(dea.noise(rows, rng), rng, vocabulary)

        return make

    words, follows, entities = described.heads
    heads = [mlm.MaskedLm(words, encoder), nsp.NextSentence(follows), dea.DenoisingEntities(entities, encoder)]
    return Pretrainable(encoder=encoder, loss=_joint.Joint(encoder, heads), batches=Sampler(batches, ("entities",)))
