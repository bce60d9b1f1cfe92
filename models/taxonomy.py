"""The survey's taxonomy (Qiu et al., 2020, figure 3), and the models at each of its terms.

The figure is from the latest version, arXiv:2003.08271v4. A `Term` has the systems that the figure names as examples,
and the values of a card that assign a model to it. So models that the figure does not name have a term as well.
`ptmbench ls models` filters by terms, and the board draws the figure.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from ptmbench.models.card import Architecture, Card, Representation


@dataclass(frozen=True, kw_only=True)
class Term:
    """A node of the figure."""

    title: str
    long: str = ""
    """The full term, if ``title`` is an abbreviation."""
    axis: str = ""
    """The field of `Card` that is compared with ``values``."""
    values: tuple[str, ...] = ()
    systems: tuple[str, ...] = ()
    """The figure's examples."""
    parts: tuple["Term", ...] = ()

    def holds(self, card: Card) -> bool:
        """Returns whether a model with this ``card`` belongs to this term or to one below it."""
        return self.names(card) or self.fits(card) or any(part.holds(card) for part in self.parts)

    def names(self, card: Card) -> bool:
        """Returns whether the model is one of the figure's examples at this term."""
        known = {fold(one) for one in (card.title, *card.aliases)}
        return any(fold(one) in known for one in self.systems)

    def fits(self, card: Card) -> bool:
        """Returns whether a value on the card assigns the model to this term."""
        if not self.axis:
            return False
        found = getattr(card, self.axis)
        return not {found, *(found if isinstance(found, tuple) else ())}.isdisjoint(self.values)


def _objectives(
    title: str, *values: str, long: str, systems: tuple[str, ...] = (), parts: tuple[Term, ...] = ()
) -> Term:
    return Term(title=title, long=long, axis="objectives", values=values, systems=systems, parts=parts)


def _architecture(title: str, *values: str, long: str = "", systems: tuple[str, ...]) -> Term:
    return Term(title=title, long=long, axis="architecture", values=values, systems=systems)


def _extension(title: str, *values: str, systems: tuple[str, ...] = (), parts: tuple[Term, ...] = ()) -> Term:
    return Term(title=title, axis="extensions", values=values, systems=systems, parts=parts)


REPRESENTATION = Term(
    title="Contextual?",
    parts=(
        Term(
            title="Non-contextual",
            axis="representation",
            values=(Representation.NON_CONTEXTUAL,),
            systems=("CBOW", "Skip-Gram", "GloVe"),
        ),
        Term(
            title="Contextual",
            axis="representation",
            values=(Representation.CONTEXTUAL,),
            systems=("ELMo", "GPT", "BERT"),
        ),
    ),
)
ARCHITECTURES = Term(
    title="Architectures",
    parts=(
        _architecture("LSTM", Architecture.LSTM, systems=("LM-LSTM", "Shared LSTM", "ELMo", "CoVe")),
        _architecture(
            "Transformer Enc.",
            Architecture.TRANSFORMER_ENCODER,
            Architecture.TWO_STREAM,
            long="Transformer encoder",
            systems=("BERT", "SpanBERT", "XLNet", "RoBERTa"),
        ),
        _architecture(
            "Transformer Dec.",
            Architecture.TRANSFORMER_DECODER,
            long="Transformer decoder",
            systems=("GPT", "GPT-2"),
        ),
        _architecture(
            "Transformer",
            Architecture.TRANSFORMER,
            long="Transformer encoder and decoder",
            systems=("MASS", "BART", "T5", "XNLG", "mBART"),
        ),
    ),
)
OBJECTIVES = Term(
    title="Pre-training tasks",
    parts=(
        Term(
            title="Supervised",
            parts=(_objectives("MT", "translation", long="Machine translation", systems=("CoVe",)),),
        ),
        Term(
            title="Self-supervised",
            parts=(
                _objectives(
                    "LM",
                    *("lm", "bilm", "awd_lm", "conditional_lm", "segment_lm", "window_lm", "unilm"),
                    long="Language modelling",
                    systems=("ELMo", "GPT", "GPT-2", "UniLM"),
                ),
                _objectives(
                    "MLM",
                    *("mlm", "sbo", "cloze", "unilm", "pseudo_masked", "masked_permuted", "word_structure"),
                    long="Masked language modelling",
                    systems=("BERT", "SpanBERT", "RoBERTa", "XLM-R"),
                    parts=(
                        _objectives("TLM", "tlm", long="Translation language modelling", systems=("XLM",)),
                        _objectives(
                            "Seq2Seq MLM",
                            *("seq2seq_mlm", "mass", "gap_sentences", "masked_sentences", "future_ngram"),
                            long="Sequence-to-sequence masked language modelling",
                            systems=("MASS", "T5"),
                        ),
                    ),
                ),
                _objectives("PLM", "plm", "masked_permuted", long="Permuted language modelling", systems=("XLNet",)),
                _objectives(
                    "DAE",
                    *("dae", "seq2seq_noises", "sequence_autoencoder"),
                    long="Denoising autoencoder",
                    systems=("BART",),
                ),
                _objectives(
                    "CTL",
                    *("dim", "context2vec", "skipgram", "biskip", "ranking"),
                    long="Contrastive learning",
                    parts=(
                        _objectives("RTD", "rtd", long="Replaced token detection", systems=("CBOW-NS", "ELECTRA")),
                        _objectives("NSP", "nsp", long="Next sentence prediction", systems=("BERT", "UniLM")),
                        _objectives(
                            "SOP",
                            *("sop", "sentence_order"),
                            long="Sentence order prediction",
                            systems=("ALBERT", "StructBERT"),
                        ),
                    ),
                ),
            ),
        ),
    ),
)
TUNING = Term(
    title="Tuning strategies",
    parts=(
        Term(title="Fine-tuning", systems=("Two-stage FT", "Multi-task FT", "Extra adaptor")),
        Term(
            title="Prompt-tuning",
            parts=(
                Term(title="Discrete", systems=("PET", "AutoPrompt", "LM-BFF")),
                Term(title="Continuous", systems=("WARP", "Prefix-Tuning", "P-Tuning")),
            ),
        ),
    ),
)
EXTENSIONS = Term(
    title="Extensions",
    parts=(
        _extension(
            "Knowledge-enriched",
            "knowledge",
            systems=("ERNIE(THU)", "KnowBERT", "K-BERT", "SentiLR", "KEPLER", "WKLM", "CoLAKE"),
        ),
        _extension(
            "Multilingual",
            "multilingual",
            parts=(
                Term(
                    title="XLU",
                    long="Cross-lingual language understanding",
                    systems=("mBERT", "Unicoder", "XLM", "XLM-R", "MultiFit"),
                ),
                Term(title="XLG", long="Cross-lingual language generation", systems=("MASS", "mBART", "XNLG")),
            ),
        ),
        _extension(
            "Language-specific",
            "language-specific",
            systems=(
                *("ERNIE(Baidu)", "BERT-wwm-Chinese", "NEZHA", "ZEN"),
                *("BERTje", "CamemBERT", "FlauBERT", "RobBERT"),
            ),
        ),
        _extension(
            "Multi-modal",
            "multi-modal",
            parts=(
                Term(title="Image", systems=("ViLBERT", "LXMERT", "VisualBERT", "B2T2", "VL-BERT")),
                Term(title="Video", systems=("VideoBERT", "CBT")),
                Term(title="Speech", systems=("SpeechBERT",)),
            ),
        ),
        _extension("Domain-specific", "domain", systems=("SentiLR", "BioBERT", "SciBERT", "PatentBERT")),
        Term(
            title="Model compression",
            parts=(
                _extension("Pruning", "pruning", systems=("CompressingBERT",)),
                _extension("Quantization", "quantization", systems=("Q-BERT", "Q8BERT")),
                _extension("Parameter sharing", "sharing", systems=("ALBERT",)),
                _extension("Distillation", "distillation", systems=("DistilBERT", "TinyBERT", "MiniLM")),
                _extension("Module replacing", "replacing", systems=("BERT-of-Theseus",)),
                Term(
                    title="Early exit",
                    systems=(
                        *("DeeBERT", "RightTool", "FastBERT", "PABEE"),
                        *("Liao et al.", "Sun et al.", "SentEE/TokEE"),
                    ),
                ),
            ),
        ),
    ),
)
FIGURE = Term(title="PTMs", parts=(REPRESENTATION, ARCHITECTURES, OBJECTIVES, TUNING, EXTENSIONS))
AXES = {
    "representation": REPRESENTATION,
    "architecture": ARCHITECTURES,
    "objective": OBJECTIVES,
    "extension": EXTENSIONS,
}
"""The four axes of section 3.2, by the options of `ptmbench ls models`."""


def terms(root: Term = FIGURE) -> Iterator[Term]:
    """Yields every term below ``root``, in the figure's order."""
    for part in root.parts:
        yield part
        yield from terms(part)


def find(name: str, root: Term = FIGURE) -> tuple[Term, ...]:
    """Returns the terms below ``root`` called ``name``, short or long, ignoring case and punctuation."""
    return tuple(one for one in terms(root) if fold(name) in (fold(one.title), fold(one.long or one.title)))


def models_in(term: Term, cards: Mapping[str, Card]) -> tuple[str, ...]:
    """Returns the names of the models at ``term`` or below it."""
    return tuple(name for name, card in cards.items() if term.holds(card))


def fold(name: str) -> str:
    """Returns ``name`` without case and punctuation: ERNIE (THU) and ERNIE(THU) are the same system."""
    return re.sub(r"[^a-z0-9]+", "", name.casefold())
