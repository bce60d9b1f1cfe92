"""The rows of the survey's tables 1 to 4, as it prints them (Qiu et al., 2020; arXiv:2003.08271v4).

Cells have the survey's facts; empty cells are empty there. `leaderboard.page.survey` adds which of them exist here.
"""

from typing import NamedTuple


class Loss(NamedTuple):
    """A row of table 1, with the names of the objectives here that have this loss."""

    task: str
    loss: str
    objectives: tuple[str, ...]


class Model(NamedTuple):
    """A row of table 2."""

    name: str
    architecture: str
    input: str
    task: str
    corpus: str
    parameters: str
    glue: str
    fine_tuned: str


class Compressed(NamedTuple):
    """A row of table 3. ``kind`` is a value of extensions on cards, and ``methods`` are the adaptations, transforms and
    students in pre-training that implement the method here."""

    name: str
    type: str
    layers: str
    loss: str
    speed_up: str
    parameters: str
    source: str
    glue: str
    kind: str
    methods: tuple[str, ...] = ()


class Transfer(NamedTuple):
    """A row of table 4, with the names of its models, and the adaptations here that implement it."""

    where: str
    how: str
    models: tuple[str, ...]
    adaptations: tuple[str, ...]


LOSSES = (
    Loss("LM", "- sum_{t = 1..T} log p(x_t | x_{<t})", ("lm", "bilm", "awd_lm", "conditional_lm", "window_lm")),
    Loss("MLM", "- sum_{x^ in m(x)} log p(x^ | x without m(x))", ("mlm", "cloze", "unilm", "pseudo_masked")),
    Loss(
        "Seq2Seq MLM",
        "- sum_{t = i..j} log p(x_t | x without x_{i:j}, x_{i:t-1})",
        ("seq2seq_mlm", "mass", "gap_sentences", "masked_sentences", "future_ngram"),
    ),
    Loss("PLM", "- sum_{t = 1..T} log p(z_t | z_{<t}), z a permutation of x", ("plm", "masked_permuted")),
    Loss("DAE", "- sum_{t = 1..T} log p(x_t | damaged x, x_{<t})", ("dae", "sequence_autoencoder")),
    Loss("DIM", "s(x^_{i:j}, x_{i:j}) - log sum_{x~ in N} s(x^_{i:j}, x~_{i:j})", ("dim",)),
    Loss("NSP/SOP", "- log p(t | x, y), t = 1 if x and y are consecutive", ("nsp", "sop", "sentence_order")),
    Loss("RTD", "- sum_{t = 1..T} log p(y_t | x^), y_t = 1 if x^_t = x_t", ("rtd",)),
)
_ENC, _DEC, _WIKI = "Transformer Enc.", "Transformer Dec.", "WikiEn + BookCorpus"
MODELS = (
    Model("ELMo", "LSTM", "Text", "BiLM", "WikiText-103", "", "", "No"),
    Model("GPT", _DEC, "Text", "LM", "BookCorpus", "117M", "72.8", "Yes"),
    Model("GPT-2", _DEC, "Text", "LM", "WebText", "117M–1542M", "", "No"),
    Model("BERT", _ENC, "Text", "MLM & NSP", _WIKI, "110M–340M", "81.9 (without WNLI)", "Yes"),
    Model("InfoWord", _ENC, "Text", "DIM + MLM", _WIKI, "= BERT", "81.1 (without WNLI)", "Yes"),
    Model(
        "RoBERTa", _ENC, "Text", "MLM", "BookCorpus + CC-News + OpenWebText + STORIES", "355M", "88.5", "Yes",
    ),
    Model(
        "XLNet", f"Two-stream {_ENC}", "Text", "PLM", f"{_WIKI} + Giga5 + ClueWeb + Common Crawl", "≈ BERT",
        "90.5 (ensemble)", "Yes",
    ),
    Model("ELECTRA", _ENC, "Text", "RTD + MLM", "same as XLNet", "335M", "88.6", "Yes"),
    Model("UniLM", _ENC, "Text", "MLM (three kinds of LM) + NSP", _WIKI, "340M", "80.8", "Yes"),
    Model("MASS", "Transformer", "Text", "Seq2Seq MLM", "depends on the task", "", "", "Yes"),
    Model("BART", "Transformer", "Text", "DAE", "same as RoBERTa", "110% of BERT", "88.4 (without WNLI)", "Yes"),
    Model("T5", "Transformer", "Text", "Seq2Seq MLM", "C4", "220M–11B", "89.7 (without WNLI)", "Yes"),
    Model("ERNIE(THU)", _ENC, "Text + Entities", "MLM + NSP + dEA", "WikiEn + Wikidata", "114M", "79.6", "Yes"),
    Model("KnowBERT", _ENC, "Text", "MLM + NSP + EL", "WikiEn + WordNet/Wiki", "253M–523M", "", "Yes"),
    Model(
        "K-BERT", _ENC, "Text + Triples", "MLM + NSP", "WikiZh + WebtextZh + CN-DBpedia + HowNet + MedicalKG",
        "= BERT", "", "Yes",
    ),
    Model("KEPLER", _ENC, "Text", "MLM + KE", "WikiEn + Wikidata/WordNet", "", "", "Yes"),
    Model("WKLM", _ENC, "Text", "MLM + ERD", "WikiEn + Wikidata", "= BERT", "", "Yes"),
    Model("CoLAKE", _ENC, "Text + Triples", "MLM", "WikiEn + Wikidata", "= RoBERTa", "86.3", "Yes"),
)  # fmt: skip
_BASE, _LARGE, _QUANT, _DISTIL = "BERT-base", "BERT-large", "Quantization", "Distillation"
COMPRESSED = (
    Compressed("BERT (base)", "Baseline", "12", "L_MLM + L_NSP", "", "110M", "", "79.6", ""),
    Compressed("BERT (large)", "Baseline", "24", "L_MLM + L_NSP", "", "340M", "", "81.9", ""),
    Compressed("Q-BERT", _QUANT, "12", "HAWQ + GWQ", "–", "", _BASE, "≈ 99% BERT", "quantization", ("qbert",)),
    Compressed("Q8BERT", _QUANT, "12", "DQ + QAT", "–", "", _BASE, "≈ 99% BERT", "quantization", ("qat",)),
    Compressed(
        "ALBERT", "Param. sharing", "12", "L_MLM + L_SOP", "×5.6–0.3", "12–235M", "", "89.4 (ensemble)", "sharing",
    ),
    Compressed(
        "DistilBERT", _DISTIL, "6", "L_KD-CE + CosKD + L_MLM", "×1.63", "66M", _BASE, "77.0 (dev)", "distillation",
        ("distilbert",),
    ),
    Compressed(
        "TinyBERT", _DISTIL, "4", "MSE_embed + MSE_attn + MSE_hidn + L_KD-CE", "×9.4", "14.5M", _BASE, "76.5",
        "distillation", ("tinybert",),
    ),
    Compressed(
        "BERT-PKD", _DISTIL, "3–6", "L_KD-CE + PT_KD + L_Task", "×3.73–1.64", "45.7–67M", _BASE, "76.0–80.6",
        "distillation", ("pkd",),
    ),
    Compressed(
        "PD", _DISTIL, "6", "L_KD-CE + L_Task + L_MLM", "×2.0", "67.5M", _BASE, "81.2", "distillation", ("distil",),
    ),
    Compressed(
        "MobileBERT", _DISTIL, "24", "FMT + AT + PKT + L_KD-CE + L_MLM", "×4.0", "25.3M", _LARGE, "79.7",
        "distillation", ("mobilebert_pkt",),
    ),
    Compressed("MiniLM", _DISTIL, "6", "AT + AR", "×1.99", "66M", _BASE, "81.0", "distillation", ("minilm",)),
    Compressed(
        "DualTrain", _DISTIL, "12", "Dual Projection + L_MLM", "–", "1.8–19.2M", _BASE, "75.8–81.9", "distillation",
        ("dualtrain",),
    ),
    Compressed(
        "BERT-of-Theseus", "Module replacing", "6", "L_Task", "×1.94", "66M", _BASE, "78.6", "replacing", ("theseus",),
    ),
)  # fmt: skip
TRANSFERS = (
    Transfer(
        "Embedding only", "FT/FE", ("word2vec", "GloVe"), ("finetune:layers=embedding", "features:layers=embedding")
    ),
    Transfer("Top layer", "FT", ("BERT", "RoBERTa"), ("finetune", "finetune:layers=top")),
    Transfer("Top layer", "FE", ("BERT",), ("features:layers=top",)),
    Transfer("All layers", "FE", ("ELMo",), ("features", "features:layers=all")),
)
