"""Templates of special tokens around a text and a pair of texts.

An imported model encodes both with the template of `transformers`, and therefore has the same vectors. Vocabularies
that were trained here are exported so that `transformers` encodes texts as we do.
"""

import json

import numpy as np
import pytest
import tokenizers
from tokenizers import normalizers, processors

from ptmbench import models
from ptmbench.bench.__main__ import main
from ptmbench.bench.adapt.heads import layout
from ptmbench.bench.engine import networks
from ptmbench.bench.engine.checkpoint import read
from ptmbench.models import published
from ptmbench.models.card import Size
from ptmbench.models.published import PublishedError, folder
from ptmbench.models.text.tokenizers import Tokenizer
from tests.models.published import made
from tests.models.references.common import TOLERANCE, difference, reference, torch, transformers

SIZE = Size(layers=2, width=32, heads=4, inner=128, length=48)
TEXTS = ["The dog sleeps, walking on.", "A café in Zürich"]
CLASSES = {
    "bert": ("BertModel", "BertConfig", "wordpiece"),
    "roberta": ("RobertaModel", "RobertaConfig", "bytewise"),
    "bart": ("BartModel", "BartConfig", "bytewise"),
    "t5": ("T5Model", "T5Config", "unigram"),
    "gpt2": ("GPT2Model", "GPT2Config", "bytewise"),
    "xlnet": ("XLNetModel", "XLNetConfig", "unigram"),
}


def vocabulary(name: str, path) -> int:
    """Writes a small tokenizer like the one that the authors of ``name`` published. Returns its number of ids."""
    original = made.KINDS[CLASSES[name][2]](path)
    settings = json.loads((path / "tokenizer_config.json").read_text())
    if name == "gpt2":  # one special token, and none around texts
        original.post_processor = processors.ByteLevel(trim_offsets=False)
        original.add_special_tokens(["<|endoftext|>"])
        settings = {f"{role}_token": "<|endoftext|>" for role in ("bos", "eos", "unk")}
    if name == "xlnet":
        original.normalizer = normalizers.Sequence([normalizers.NFKD(), normalizers.StripAccents()])
        original.add_special_tokens(["<sep>", "<cls>", "<mask>"])
        special = [(token, original.token_to_id(token)) for token in ("<sep>", "<cls>")]
        original.post_processor = processors.TemplateProcessing(
            single="$A:0 <sep>:0 <cls>:2", pair="$A:0 <sep>:0 $B:1 <sep>:1 <cls>:2", special_tokens=special
        )
        settings |= {"cls_token": "<cls>", "sep_token": "<sep>", "mask_token": "<mask>"}
    original.no_truncation(), original.no_padding()
    original.save(str(path / "tokenizer.json"))
    (path / "tokenizer_config.json").write_text(json.dumps(settings))
    return original.get_vocab_size()


def theirs(network, inputs):
    """Returns the last hidden layer [T, D] of the encoder, or of a decoder-only model, for AutoTokenizer's output."""
    network = network.get_encoder() if network.config.is_encoder_decoder else network
    with torch.no_grad():
        return network(**inputs).last_hidden_state[0]


def check(vectors, expected) -> None:
    """Checks that vectors are within `TOLERANCE`, relative to the largest value if it exceeds 1."""
    assert difference(vectors, expected) < TOLERANCE * max(1.0, float(expected.abs().max()))


@pytest.mark.parametrize("name", CLASSES)
def test_imported_model_encodes_texts_as_in_transformers(name, tmp_path):
    kind, config = (getattr(transformers, cls) for cls in CLASSES[name][:2])
    count = vocabulary(name, tmp_path / "theirs")
    ours = Tokenizer.train("wordpiece", made.TEXT, 100).vocabulary
    settings = published.load(name).config(SIZE, ours) | {"vocab_size": count}
    network = reference(kind, config, **settings)
    network.save_pretrained(tmp_path / "theirs")
    pieces = transformers.AutoTokenizer.from_pretrained(tmp_path / "theirs")
    # Since release 5, AutoTokenizer returns the segments of XLNet only on request.
    options = {"return_tensors": "pt"} | ({"return_token_type_ids": True} if name == "xlnet" else {})
    assert main(["import", str(tmp_path / "theirs"), "--out", str(tmp_path / "c")]) == 0
    (tmp_path / "lines").write_text("".join(f"{text}\n" for text in TEXTS))
    files = ("--input", str(tmp_path / "lines"), "--out", str(tmp_path / "v.npz"))
    assert main(["encode", str(tmp_path / "c"), *files]) == 0
    encoded = np.load(tmp_path / "v.npz")
    for number, text in enumerate(TEXTS):
        expected = theirs(network, pieces(text, **options))
        vectors = encoded["tokens"][slice(*encoded["offsets"][number : number + 2])]
        assert vectors.shape == expected.shape
        check(vectors, expected)
        if name in ("roberta", "xlnet", "gpt2"):
            pooled = expected[0 if name == "roberta" else -1]
            check(encoded["pooled"][number], pooled)
    checkpoint = read(tmp_path / "c")
    tokenizer = Tokenizer.load(checkpoint.path("tokenizer.json"))
    built = networks.build(checkpoint.about["model"], Size(**checkpoint.about["shape"]), tokenizer, 0)
    networks.assign(built.loss.variables, checkpoint.arrays())
    arrays = layout(tokenizer.vocabulary, tokenizer.encode(TEXTS), SIZE.length)
    vectors = built.encoder({name: array[None] for name, array in arrays.items()}).tokens[0].numpy()
    expected = theirs(network, pieces(*TEXTS, **options))
    assert vectors.shape == expected.shape
    check(vectors, expected)


@pytest.mark.parametrize("name", ["bert", "roberta", "mpnet", "gpt2", "xlnet"])
def test_transformers_encodes_unknown_words_with_our_models_as_here(name, tmp_path):
    """The network gets all outputs of AutoTokenizer, with segments if it has them. [UNK] is not treated as padding."""
    tokenizer = Tokenizer.train("wordpiece", made.TEXT, 300)
    built = models.load(name).build(SIZE, tokenizer.vocabulary)
    arrays = {v.path: v.numpy() for v in built.loss.variables}
    folder.write(tmp_path / "f", model=name, size=SIZE, tokenizer=tokenizer, arrays=arrays)
    network = transformers.AutoModel.from_pretrained(tmp_path / "f").eval()
    pieces = transformers.AutoTokenizer.from_pretrained(tmp_path / "f")
    reloaded = folder.read(tmp_path / "f")
    assert reloaded.tokenizer.encode(TEXTS) == tokenizer.encode(TEXTS)
    first, second = "The dog ☃ sleeps ☃☃ on.", "☃ walking"
    assert sum(ids.count(1) for ids in tokenizer.encode([first, second])) >= 3
    for texts in ([first], [first, second]):
        inputs = layout(tokenizer.vocabulary, tokenizer.encode(texts), SIZE.length)
        vectors = built.encoder({name: array[None] for name, array in inputs.items()}).tokens[0].numpy()
        expected = theirs(network, pieces(*texts, return_tensors="pt"))
        check(vectors, expected)
    if name in ("roberta", "mpnet"):
        assert (pieces.pad_token_id, pieces.unk_token_id) == (1, 0)


def test_vocabulary_with_another_padding_id_is_refused_for_roberta(tmp_path):
    made.wordpiece(tmp_path / "a")
    tokenizer = published._vocabulary.read(tmp_path / "a", {})
    built = models.load("roberta").build(SIZE, tokenizer.vocabulary)
    arrays = {v.path: v.numpy() for v in built.loss.variables}
    with pytest.raises(PublishedError, match="padding has the id 0, but roberta"):
        folder.write(tmp_path / "f", model="roberta", size=SIZE, tokenizer=tokenizer, arrays=arrays)


def test_unsupported_templates_are_refused(tmp_path):
    original = made.wordpiece(tmp_path)
    spec = json.loads(original.to_str())
    special_ids = {"[CLS]": original.token_to_id("[CLS]"), "dog": original.token_to_id("dog")}
    for single, pair, message in (
        ("[CLS] $A", "$A $B", "other special tokens around a pair"),
        ("dog $A", "dog $A $B", "neither the start nor the end"),
    ):
        original.post_processor = processors.TemplateProcessing(
            single=single, pair=pair, special_tokens=[(n, i) for n, i in special_ids.items() if n in single]
        )
        spec["post_processor"] = json.loads(original.to_str())["post_processor"]
        assert tokenizers.Tokenizer.from_str(json.dumps(spec))
        (tmp_path / "tokenizer.json").write_text(json.dumps(spec))
        with pytest.raises(PublishedError, match=message):
            published._vocabulary.read(tmp_path, {"model_type": "bert"})
