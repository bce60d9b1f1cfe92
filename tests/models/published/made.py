"""Small published folders in the layouts of other programs. The tests of `models.published` read them."""

import json
from pathlib import Path

import tokenizers
from tokenizers import decoders, normalizers, pre_tokenizers, processors, trainers
from tokenizers import models as algorithms

TEXT = [
    "The quick brown fox jumps over the lazy dog, and the dog sleeps on.",
    "A café in Zürich sells naïve crème brûlée; she doesn't like it!",
    "Over 1,234 people (mostly walkers) walked, walking and walk again.",
    "unbelievable undoing unkind unknown underlying understanding undertakings",
    "Die Straße führt nach Köln; 東京 is far, Москва too.",
] * 20
HARD = [
    "The dog sleeps.",
    "",
    "   ",
    " two  spaces\r\nand\tmore\n",
    "cafe\u0301 Zu\u0308rich na\u00efve \u00c5NGSTR\u00d6M \ufb01ne \u2460 \u212b",
    "cr\u00e8me br\u00fbl\u00e9e \U0001f600\U0001f468\u200d\U0001f469\u200d\U0001f467",
    "\u6771\u4eac\u90fd \u041c\u043e\u0441\u043a\u0432\u0430 cre\u0300me",
    "\u00a0non-breaking\u200bzero\u3000wide\u2028line",
    "x" * 300,
    "unbelievable" * 12 + " walked",
    "null\x00 bell\x07 escape\x1b \ufffd delete\x7f \ufeffmark",
    "1,234 9, 10, ``quoted'' it's we'll 'S",
    "\u0627\u0644\u0644\u063a\u0629 \u0939\u093f\u0928\u094d\u0926\u0940",
    "\ud55c\uad6d\uc5b4 \u0e20\u0e32\u0e29\u0e32\u0e44\u0e17\u0e22",
    "\u2581 \u2581\u2581under \u0120dog ##ing </w>",
]
SPELLED = ["[MASK] and [CLS]x[SEP]", "a<s> b </s>c <mask> <pad>d <unk>", "<extra_id_0> x <|endoftext|> <sep><cls>"]
"""Texts that contain the spellings of special tokens."""


def wordpiece(folder: Path, *, lowercase: bool = True) -> tokenizers.Tokenizer:
    """Writes a tokenizer like BERT's, with unused pieces and with BERT's ids of special tokens."""
    impl = tokenizers.Tokenizer(algorithms.WordPiece(unk_token="[UNK]"))
    impl.normalizer = normalizers.BertNormalizer(lowercase=lowercase)
    impl.pre_tokenizer, impl.decoder = pre_tokenizers.BertPreTokenizer(), decoders.WordPiece()
    special = ["[PAD]", *(f"[unused{i}]" for i in range(40)), "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    impl.train_from_iterator(TEXT, trainers.WordPieceTrainer(vocab_size=400, special_tokens=special))
    # As in BERT, [CLS] and the like are special tokens, and unused pieces are ordinary pieces.
    spec = json.loads(impl.to_str())
    spec["added_tokens"] = [token for token in spec["added_tokens"] if "unused" not in token["content"]]
    cls, sep = (spec["model"]["vocab"][name] for name in ("[CLS]", "[SEP]"))
    impl = tokenizers.Tokenizer.from_str(json.dumps(spec))
    impl.post_processor = processors.TemplateProcessing(
        single="[CLS]:0 $A:0 [SEP]:0",
        pair="[CLS]:0 $A:0 [SEP]:0 $B:1 [SEP]:1",
        special_tokens=[("[CLS]", cls), ("[SEP]", sep)],
    )
    return _save(impl, folder, dict(zip(_ROLES, ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"), strict=True)))


def bytewise(folder: Path) -> tokenizers.Tokenizer:
    """Writes a byte-level BPE tokenizer like RoBERTa's."""
    impl = tokenizers.Tokenizer(algorithms.BPE())
    impl.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    impl.decoder = decoders.ByteLevel()
    special = ["<s>", "<pad>", "</s>", "<unk>", "<mask>"]
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    impl.train_from_iterator(
        TEXT, trainers.BpeTrainer(vocab_size=400, special_tokens=special, initial_alphabet=alphabet)
    )
    impl.post_processor = processors.RobertaProcessing(("</s>", 2), ("<s>", 0), add_prefix_space=False)
    impl.enable_truncation(16)
    impl.enable_padding()
    return _save(impl, folder, dict(zip(_ROLES, ("<pad>", "<unk>", "<s>", "</s>", "<mask>"), strict=True)))


def endings(folder: Path) -> tokenizers.Tokenizer:
    """Writes a BPE tokenizer like GPT's, which marks the ends of words."""
    impl = tokenizers.Tokenizer(algorithms.BPE(unk_token="<unk>", end_of_word_suffix="</w>"))
    impl.normalizer = normalizers.BertNormalizer(lowercase=True)
    impl.pre_tokenizer, impl.decoder = pre_tokenizers.BertPreTokenizer(), decoders.BPEDecoder(suffix="</w>")
    special = ["<unk>"]
    impl.train_from_iterator(
        TEXT, trainers.BpeTrainer(vocab_size=300, special_tokens=special, end_of_word_suffix="</w>")
    )
    return _save(impl, folder, {"unk_token": "<unk>"})


def unigram(folder: Path) -> tokenizers.Tokenizer:
    """Writes a unigram tokenizer like T5's."""
    impl = tokenizers.Tokenizer(algorithms.Unigram())
    impl.normalizer = normalizers.Sequence([normalizers.NFKC(), normalizers.Replace(tokenizers.Regex(" {2,}"), " ")])
    impl.pre_tokenizer = pre_tokenizers.Metaspace(replacement="▁", prepend_scheme="always")
    impl.decoder = decoders.Metaspace(replacement="▁", prepend_scheme="always")
    special = ["<pad>", "</s>", "<unk>"]
    impl.train_from_iterator(
        TEXT, trainers.UnigramTrainer(vocab_size=300, special_tokens=special, unk_token="<unk>", show_progress=False)
    )
    impl.add_special_tokens([f"<extra_id_{i}>" for i in range(40)])
    return _save(impl, folder, {"pad_token": "<pad>", "eos_token": "</s>", "unk_token": "<unk>"})


KINDS = {"wordpiece": wordpiece, "bytewise": bytewise, "endings": endings, "unigram": unigram}
_ROLES = ("pad_token", "unk_token", "cls_token", "sep_token", "mask_token")


def _save(impl: tokenizers.Tokenizer, folder: Path, settings: dict) -> tokenizers.Tokenizer:
    folder.mkdir(parents=True, exist_ok=True)
    impl.save(str(folder / "tokenizer.json"))
    (folder / "tokenizer_config.json").write_text(json.dumps(settings))
    return impl


def plain(impl: tokenizers.Tokenizer, texts: list[str]) -> list[list[int]]:
    """Returns the original's ids of ``texts`` as plain text: without added special tokens, without truncation, and with
    spelled special tokens read as letters."""
    impl = tokenizers.Tokenizer.from_str(impl.to_str())
    impl.no_truncation(), impl.no_padding()
    impl.encode_special_tokens = True
    return [encoding.ids for encoding in impl.encode_batch(texts, add_special_tokens=False)]
