"""Converts older vocabulary files to the form of the `tokenizers` package (tokenizer.json), as `transformers` does."""

import json
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import tokenizers
from tokenizers import Regex, decoders, normalizers, pre_tokenizers, processors
from tokenizers import models as algorithms

from ptmbench.models.published import PublishedError

_LARGEST = 1 << 26
"""Most bytes of a vocabulary."""
_MOST_EXTRA = 1 << 16
MADE_HERE = "ptmbench"
"""The normalizer's name in the sentencepiece models that `models.published.presets` writes."""
LEGACY_FILES = (
    "vocab.txt",
    "prophetnet.tokenizer",
    "vocab.json",
    "spiece.model",
    "spm.model",
    "sentencepiece.bpe.model",
)


def read_legacy_vocabulary(folder: Path, config: Mapping[str, Any], settings: Mapping[str, Any]) -> dict[str, Any]:
    """Reads the tokenizer from the first of the files `LEGACY_FILES` in ``folder``.

    Raises `PublishedError` if there is none, or if it cannot be read.
    """
    path = next((folder / name for name in LEGACY_FILES if (folder / name).is_file()), None)
    if path is None:
        raise PublishedError(f"{folder} has no vocabulary: put tokenizer.json, or {', '.join(LEGACY_FILES[:4])} there.")
    if path.suffix in (".txt", ".tokenizer"):
        opening = "" if path.suffix == ".tokenizer" else "[CLS]:0 "
        reader = partial(wordpiece, settings=settings, opening=opening)
    elif path.suffix == ".json":
        reader = partial(bpe, merges=folder / "merges.txt", settings=settings)
    else:
        reader = partial(sentencepiece, model_type=str(config.get("model_type")), settings=settings)
    return json_form(path, reader)


def json_form(path: Path, reader: Callable[[Path], tokenizers.Tokenizer]) -> dict[str, Any]:
    """Reads ``path`` with ``reader`` and returns the package's JSON form. Raises `PublishedError` if that fails."""
    if path.stat().st_size > _LARGEST:
        raise PublishedError(
            f"The vocabulary {path} has {path.stat().st_size:,} bytes, and vocabularies have {_LARGEST:,} at most. "
            "Is it the right file? Fetch it again."
        )
    try:
        return json.loads(reader(path).to_str())
    except PublishedError:
        raise
    except BaseException as error:  # the package and the parsers raise bare Exceptions, a panic is a BaseException
        no_interrupt(error)
        raise PublishedError(f"The vocabulary {path} cannot be read: {error}. Fetch it again.") from error


def no_interrupt(error: BaseException) -> None:
    """Raises ``error`` again if it asks the process to end. Ctrl-C does not mean that a file is damaged."""
    if isinstance(error, KeyboardInterrupt | SystemExit | GeneratorExit):
        raise error


def check_charsmap(charsmap: bytes) -> None:
    """Raises `ValueError` if a table of characters by the sentencepiece package is shorter than its trie.

    The first four bytes of the table are the size of the trie in bytes.
    """
    if charsmap and not 4 <= 4 + int.from_bytes(charsmap[:4], "little") <= len(charsmap):
        raise ValueError("Its table of characters (precompiled_charsmap) is cut short")


def _special_token_count(settings: Mapping[str, Any], name: str, usual: int) -> int:
    """Returns the number of special tokens in a setting. Raises `PublishedError` if it is not plausible."""
    found = settings.get(name, usual)
    if type(found) is not int or not 0 <= found <= _MOST_EXTRA:
        raise PublishedError(
            f"tokenizer_config.json gives {name} as {found!r}, and it is a whole number up to {_MOST_EXTRA}. Fetch it "
            "again."
        )
    return found


def wordpiece(path: Path, settings: Mapping[str, Any], opening: str = "[CLS]:0 ") -> tokenizers.Tokenizer:
    """Reads BERT's vocabulary, with one piece a line. ``opening`` is the start of the template, "" for ProphetNet."""
    vocabulary = {line.rstrip("\n"): i for i, line in enumerate(path.open(encoding="utf-8"))}
    unk = _token_spelling(settings, "unk_token", "[UNK]")
    if unk not in vocabulary:
        raise PublishedError(f"{path} has no piece {unk} for what it does not know. Name it in tokenizer_config.json.")
    impl = tokenizers.Tokenizer(algorithms.WordPiece(vocabulary, unk_token=unk, max_input_chars_per_word=100))
    impl.normalizer = normalizers.BertNormalizer(
        clean_text=True,
        handle_chinese_chars=settings.get("tokenize_chinese_chars", True),
        strip_accents=settings.get("strip_accents"),
        lowercase=settings.get("do_lower_case", True),
    )
    impl.pre_tokenizer, impl.decoder = pre_tokenizers.BertPreTokenizer(), decoders.WordPiece(prefix="##")
    cls, sep = _token_spelling(settings, "cls_token", "[CLS]"), _token_spelling(settings, "sep_token", "[SEP]")
    if cls in vocabulary and sep in vocabulary:
        impl.post_processor = processors.TemplateProcessing(
            single=f"{opening}$A:0 {sep}:0".replace("[CLS]", cls),
            pair=f"{opening}$A:0 {sep}:0 $B:1 {sep}:1".replace("[CLS]", cls),
            special_tokens=[(cls, vocabulary[cls]), (sep, vocabulary[sep])],
        )
    return _mark_special_tokens(impl, settings, ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"))


def bpe(path: Path, merges: Path, settings: Mapping[str, Any]) -> tokenizers.Tokenizer:
    """Reads GPT-2's byte-level BPE, or GPT's BPE with "</w>" at the end of words."""
    vocabulary = json.loads(path.read_bytes())
    if merges.stat().st_size > _LARGEST:
        raise PublishedError(f"{merges} has more than {_LARGEST:,} bytes, which no merges have. Fetch it again.")
    lines = merges.read_text(encoding="utf-8").split("\n")
    pairs = [tuple(line.split(" ")) for line in lines if line and not line.startswith("#version")]
    if any(piece.endswith("@@") for piece in vocabulary):
        raise PublishedError(f"{path} is a vocabulary with '@@' inside words, which no tokenizer here cuts.")
    if any(piece.endswith("</w>") for piece in vocabulary):
        unk = _token_spelling(settings, "unk_token", "<unk>")
        words = algorithms.BPE(vocabulary, pairs, unk_token=unk, end_of_word_suffix="</w>", fuse_unk=False)
        impl = tokenizers.Tokenizer(words)
        impl.normalizer = normalizers.BertNormalizer(lowercase=True)
        impl.pre_tokenizer, impl.decoder = pre_tokenizers.BertPreTokenizer(), decoders.BPEDecoder(suffix="</w>")
        return _mark_special_tokens(impl, settings, (unk,))
    impl = tokenizers.Tokenizer(algorithms.BPE(vocabulary, pairs))
    impl.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=settings.get("add_prefix_space", False))
    impl.decoder = decoders.ByteLevel()
    cls, sep = _token_spelling(settings, "cls_token", "<s>"), _token_spelling(settings, "sep_token", "</s>")
    if cls in vocabulary and sep in vocabulary:  # RoBERTa's and BART's template
        impl.post_processor = processors.RobertaProcessing((sep, vocabulary[sep]), (cls, vocabulary[cls]))
    else:
        impl.post_processor = processors.ByteLevel(trim_offsets=False)
    return _mark_special_tokens(impl, settings, ("<s>", "<pad>", "</s>", "<unk>", "<mask>", "<|endoftext|>"))


def sentencepiece(path: Path, model_type: str, settings: Mapping[str, Any]) -> tokenizers.Tokenizer:
    """Reads a unigram model of the sentencepiece package, and adds the steps that each family of models has.

    Raises `PublishedError` for other kinds of models, and for families that are not known.
    """
    from sentencepiece import sentencepiece_model_pb2

    proto = sentencepiece_model_pb2.ModelProto.FromString(path.read_bytes())
    if proto.trainer_spec.model_type != proto.trainer_spec.UNIGRAM or proto.trainer_spec.byte_fallback:
        raise PublishedError(
            f"{path} is not a unigram model. Load it with transformers' AutoTokenizer and save it: the tokenizer.json "
            "that this writes is read here."
        )
    pieces = [(piece.piece, piece.score) for piece in proto.pieces]
    unk, before = proto.trainer_spec.unk_id, []
    marked = [piece.piece for piece in proto.pieces if piece.type in (piece.CONTROL, piece.USER_DEFINED)]
    marked.append(pieces[unk][0])
    if proto.normalizer_spec.name == MADE_HERE:  # it needs no further pieces or steps
        before = [normalizers.Strip()]
    elif model_type == "t5":
        extra = [f"<extra_id_{i}>" for i in reversed(range(_special_token_count(settings, "extra_ids", 100)))]
        pieces, marked = [*pieces, *((piece, 0.0) for piece in extra)], [*marked, *extra]
    elif model_type == "pegasus":  # padding, end, special tokens up to the offset, then the text
        offset = _special_token_count(settings, "offset", 103)
        opening = ["<pad>", "</s>", "<mask_1>", "<mask_2>", *(f"<unk_{i}>" for i in range(2, offset))][: offset + 2]
        pieces = [*((piece, -100.0 if i > 3 else 0.0) for i, piece in enumerate(opening)), *pieces[2:]]
        unk, marked = unk + offset, [*opening, *marked]
    elif model_type in ("albert", "xlnet"):
        before = [normalizers.Replace("``", '"'), normalizers.Replace("''", '"')]
        if not settings.get("keep_accents", False):
            before += [normalizers.NFKD(), normalizers.StripAccents()]
        if settings.get("do_lower_case", model_type == "albert"):
            before.append(normalizers.Lowercase())
        # These families split "9," before its comma, whatever the scores are.
        pieces = [(piece, score - 100 if _number_and_comma(piece) else score) for piece, score in pieces]
    else:
        raise PublishedError(
            f"How models of the type {model_type} use {path.name} is not known here. Load it with transformers' "
            "AutoTokenizer and save it: the tokenizer.json that this writes is read."
        )
    impl = tokenizers.Tokenizer(algorithms.Unigram(pieces, unk, False))
    charsmap = proto.normalizer_spec.precompiled_charsmap
    check_charsmap(charsmap)
    steps = [*before, *([normalizers.Precompiled(charsmap)] if charsmap else ())]
    if model_type in ("t5", "pegasus"):
        steps += [normalizers.Strip(left=False, right=True)]
    impl.normalizer = normalizers.Sequence([*steps, normalizers.Replace(Regex(" {2,}"), " ")])
    metaspace = pre_tokenizers.Metaspace(replacement="▁", prepend_scheme="always")
    impl.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.WhitespaceSplit(), metaspace])
    impl.decoder = decoders.Metaspace(replacement="▁", prepend_scheme="always")
    ids = {piece: i for i, (piece, _) in enumerate(pieces)}
    single, pair = {
        "albert": ("[CLS]:0 $A:0 [SEP]:0", "[CLS]:0 $A:0 [SEP]:0 $B:1 [SEP]:1"),
        "xlnet": ("$A:0 <sep>:0 <cls>:2", "$A:0 <sep>:0 $B:1 <sep>:1 <cls>:2"),
        "t5": ("$A </s>", "$A </s> $B </s>"),
        "pegasus": ("$A </s>", "$A $B </s>"),
    }[model_type]
    named = [(piece, ids[piece]) for piece in ("[CLS]", "[SEP]", "<sep>", "<cls>", "</s>") if piece in ids]
    impl.post_processor = processors.TemplateProcessing(
        single=single, pair=pair, special_tokens=[(piece, i) for piece, i in named if piece in pair]
    )
    return _mark_special_tokens(impl, settings, marked)


def _number_and_comma(piece: str) -> bool:
    return len(piece) >= 2 and piece[-1] == "," and piece[-2].isdigit()


def _token_spelling(settings: Mapping[str, Any], role: str, usual: str) -> str:
    """Returns the spelling of the token with this role."""
    token = settings.get(role) or usual
    return token["content"] if isinstance(token, Mapping) else token


def _mark_special_tokens(impl: tokenizers.Tokenizer, settings: Mapping[str, Any], usual: Any) -> tokenizers.Tokenizer:
    """Marks the special tokens among the pieces of ``impl``, and returns it."""
    roles = ("pad", "unk", "cls", "sep", "mask", "bos", "eos")
    named = [_token_spelling(settings, f"{role}_token", "") for role in roles]
    known = [token for token in dict.fromkeys([*usual, *named]) if token and impl.token_to_id(token) is not None]
    impl.add_special_tokens([tokenizers.AddedToken(token, normalized=False, special=True) for token in known])
    return impl
