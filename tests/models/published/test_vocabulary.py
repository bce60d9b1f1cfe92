"""Imported vocabularies have the original's pieces for every text and our ids of special tokens. Exports undo this."""

import json

import numpy as np
import pytest
import sentencepiece

from ptmbench.models.published import PublishedError, _vocabulary
from ptmbench.models.text.tokenizers import Tokenizer
from ptmbench.models.text.words import Words
from tests.models.published import made

every_kind = pytest.mark.parametrize("kind", made.KINDS)


def read_both(kind, tmp_path):
    """Returns the original tokenizer and the imported one."""
    return made.KINDS[kind](tmp_path), _vocabulary.read(tmp_path, {"decoder_start_token_id": 0})


@every_kind
def test_pieces_are_those_of_the_original(kind, tmp_path):
    original, tokenizer = read_both(kind, tmp_path)
    places, size = _vocabulary.permutation(tokenizer)
    pieces = places[tokenizer.vocabulary.first :]  # several of our special tokens may be one of the original's
    assert size == original.get_vocab_size() and len(pieces) == len(set(pieces)) and max(pieces) < size
    theirs = made.plain(original, made.HARD)
    assert [[places[i] for i in ids] for ids in tokenizer.encode(made.HARD)] == theirs
    assert sum(map(len, theirs)) > 100


@every_kind
def test_texts_cannot_spell_special_tokens(kind, tmp_path):
    original, tokenizer = read_both(kind, tmp_path)
    places, _ = _vocabulary.permutation(tokenizer)
    special = {token["id"] for token in json.loads(original.to_str())["added_tokens"] if token["special"]}
    special -= {places[1]}
    for ids in tokenizer.encode(made.SPELLED):
        assert ids and not special & {places[i] for i in ids}
    if kind != "unigram":  # a unigram model matches its own control symbols in texts
        encoded = tokenizer.encode(made.SPELLED)
        assert [[places[i] for i in ids] for ids in encoded] == made.plain(original, made.SPELLED)


def test_special_tokens_get_our_ids(tmp_path):
    expected = {
        "wordpiece": ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "[unused0]", "[unused1]"],
        "bytewise": ["<pad>", "<unk>", "<s>", "</s>", "<mask>", None, None],
        "endings": [None, "<unk>", None, None, None, None, None],
        "unigram": ["<pad>", "<unk>", "<pad>", "</s>", None, "<extra_id_0>", "<extra_id_1>"],
    }
    for kind, names in expected.items():
        original = made.KINDS[kind](tmp_path / kind)
        # padding is our [CLS] if the decoder starts with it
        config = {"decoder_start_token_id": original.token_to_id("<pad>")} if kind == "unigram" else {}
        rows = _vocabulary.read(tmp_path / kind, config).imported["rows"]
        assert [None if row is None else original.id_to_token(row) for row in rows[:7]] == names


@every_kind
def test_table_rows_survive_the_round_trip(kind, tmp_path):
    original, tokenizer = read_both(kind, tmp_path)
    table = np.random.default_rng(0).normal(size=(original.get_vocab_size() + 3, 4)).astype(np.float32)
    ours = _vocabulary.to_ours(table, tokenizer)
    assert ours.shape == (tokenizer.vocabulary.size, 4)
    (text,) = made.plain(original, ["walking understanding"])
    np.testing.assert_array_equal(ours[tokenizer.encode(["walking understanding"])[0]], table[text])
    absent = [i for i, row in enumerate(tokenizer.imported["rows"]) if row is None]
    np.testing.assert_allclose(ours[absent], np.broadcast_to(table.mean(0), (len(absent), 4)), rtol=1e-6)
    np.testing.assert_array_equal(_vocabulary.to_theirs(ours, tokenizer), table[:-3])


@pytest.mark.parametrize("number", [-1, 999, "x", [0]])
def test_padding_id_outside_the_tokenizer_is_ignored(number, tmp_path):
    """On export, the id -1 would overwrite the row of the last piece."""
    made.endings(tmp_path)
    tokenizer = _vocabulary.read(tmp_path, {"model_type": "openai-gpt", "pad_token_id": number})
    places, size = _vocabulary.permutation(tokenizer)
    table = np.arange(2.0 * size).reshape(size, 2)
    assert places[0] is None
    np.testing.assert_array_equal(_vocabulary.to_theirs(_vocabulary.to_ours(table, tokenizer), tokenizer), table)


@every_kind
def test_imported_tokenizer_is_saved_and_loaded(kind, tmp_path):
    _, tokenizer = read_both(kind, tmp_path)
    tokenizer.save(tmp_path / "ours.json")
    reloaded = Tokenizer.load(tmp_path / "ours.json")
    assert reloaded.fingerprint == tokenizer.fingerprint and reloaded.imported == tokenizer.imported
    assert reloaded.encode(made.HARD) == tokenizer.encode(made.HARD)
    content = json.loads((tmp_path / "ours.json").read_text())
    content["imported"]["rows"][0] = 7
    (tmp_path / "ours.json").write_text(json.dumps(content))
    with pytest.raises(ValueError, match="damaged"):
        Tokenizer.load(tmp_path / "ours.json")


@every_kind
def test_corpora_words_and_offsets_agree_with_the_imported_tokenizer(kind, tmp_path):
    _, tokenizer = read_both(kind, tmp_path)
    texts = [text for text in made.TEXT[:5] if text]
    ids, sizes = Words(tokenizer).encode(texts)
    assert np.split(ids, np.cumsum(sizes)[:-1])[1].tolist() == tokenizer.encode(texts)[1]
    for text, (ids_with_offsets, offsets) in zip(texts, tokenizer.encode_with_offsets(texts), strict=True):
        assert ids_with_offsets == tokenizer.encode([text])[0]
        words = {text[a:b] for a, b in offsets}
        assert not any(word != word.strip() for word in words)
    (flat,) = tokenizer.encode(["walking understanding dog"])
    heads = tokenizer.heads(np.array(flat))
    ((word_ids, index),) = tokenizer.encode_words([["walking", "understanding", "dog"]])
    assert heads.sum() == 3 and set(index) == {0, 1, 2}
    # `encode_words` gives a word the pieces that it has inside a sentence
    last = [i for i, n in zip(word_ids, index, strict=True) if n == 2]
    assert flat[len(flat) - len(last) :] == last


def test_vocab_txt_is_read_with_its_case_setting(tmp_path):
    for lowercase in (True, False):
        folder = tmp_path / str(lowercase)
        original = made.wordpiece(folder, lowercase=lowercase)
        pieces = sorted(original.get_vocab(), key=original.get_vocab().get)
        (folder / "vocab.txt").write_text("\n".join(pieces) + "\n", encoding="utf-8")
        (folder / "tokenizer.json").unlink()
        (folder / "tokenizer_config.json").write_text(json.dumps({"do_lower_case": lowercase}))
        tokenizer = _vocabulary.read(folder, {})
        places, _ = _vocabulary.permutation(tokenizer)
        assert [[places[i] for i in ids] for ids in tokenizer.encode(made.HARD)] == made.plain(original, made.HARD)


@pytest.mark.parametrize("kind", ["bytewise", "endings"])
def test_vocab_json_and_merges_are_read(kind, tmp_path):
    original = made.KINDS[kind](tmp_path)
    model = json.loads(original.to_str())["model"]
    (tmp_path / "tokenizer.json").unlink()
    (tmp_path / "vocab.json").write_text(json.dumps(model["vocab"]))
    merges = "\n".join(" ".join(pair) for pair in model["merges"])
    (tmp_path / "merges.txt").write_text(f"#version: 0.2\n{merges}\n", encoding="utf-8")
    tokenizer = _vocabulary.read(tmp_path, {})
    places, _ = _vocabulary.permutation(tokenizer)
    assert [[places[i] for i in ids] for ids in tokenizer.encode(made.HARD)] == made.plain(original, made.HARD)


@pytest.mark.parametrize(("model_type", "more", "offset"), [("t5", 100, 0), ("pegasus", 103, 103)])
def test_sentencepiece_models_are_read(model_type, more, offset, tmp_path):
    """Texts have the pieces of the sentencepiece package. PEGASUS has 103 ids before the pieces, and T5
    has 100 sentinels after them."""
    (tmp_path / "text").write_text("\n".join(made.TEXT), encoding="utf-8")
    settings = {"vocab_size": 90, "pad_id": 0, "eos_id": 1, "unk_id": 2, "bos_id": -1, "minloglevel": 2}
    sentencepiece.SentencePieceTrainer.train(
        input=str(tmp_path / "text"), model_prefix=str(tmp_path / "spiece"), **settings
    )
    original = sentencepiece.SentencePieceProcessor(model_file=str(tmp_path / "spiece.model"))
    tokenizer = _vocabulary.read(tmp_path, {"model_type": model_type, "decoder_start_token_id": 0})
    places, size = _vocabulary.permutation(tokenizer)
    assert size == original.get_piece_size() + more
    if model_type == "t5":
        assert places[5] == size - 1  # <extra_id_0> has the last id
    for text in made.HARD:
        if "\u2028" not in text and "\x00" not in text:  # the packages treat this white space and NUL differently
            expected = [i + offset for i in original.encode(text)]
            assert [places[i] for i in tokenizer.encode([text])[0]] == expected, text
    with pytest.raises(PublishedError, match="not known here"):
        _vocabulary.read(tmp_path, {"model_type": "bert"})


def test_missing_and_damaged_vocabularies_are_refused(tmp_path):
    with pytest.raises(PublishedError, match="has no vocabulary"):
        _vocabulary.read(tmp_path, {})
    (tmp_path / "tokenizer.json").write_text('{"model": ')
    with pytest.raises(PublishedError, match="damaged or cut short"):
        _vocabulary.read(tmp_path, {})
    (tmp_path / "tokenizer.json").write_text('{"model": {"type": "WordPiece"}}')
    with pytest.raises(PublishedError, match="not in the form"):
        _vocabulary.read(tmp_path, {})
    (tmp_path / "tokenizer.json").unlink()
    (tmp_path / "spiece.model").write_bytes(b"no protocol buffer")
    with pytest.raises(PublishedError, match="cannot be read"):
        _vocabulary.read(tmp_path, {"model_type": "t5"})


def _with_id(number):
    return lambda spec: spec["model"]["vocab"].update(dog=number)


@pytest.mark.parametrize(
    ("harm", "message"),
    [
        (_with_id(-5), "gives 'dog' the id -5"),
        (_with_id(1.5), "gives 'dog' the id 1.5"),
        (_with_id(10**10), "gives 'dog' the id 10000000000"),
        (_with_id(7), "and 'dog' the same id, 7|'dog' and .* the same id, 7"),
        (lambda spec: spec["model"].update(vocab="x"), "not in the form"),
        (lambda spec: spec["model"].update(vocab=[["a"]]), "not in the form"),
        (lambda spec: spec.update(post_processor={"type": "Unheard"}), "cannot read this tokenizer's post-processor"),
        (lambda spec: spec["post_processor"].update(single=[]), "not in the form"),
    ],
)
def test_hostile_tokenizers_are_refused(harm, message, tmp_path):
    """If pieces shared an id, only one of them would be kept. An id far behind the others would need memory for all ids
    up to it."""
    made.wordpiece(tmp_path)
    spec = json.loads((tmp_path / "tokenizer.json").read_text())
    harm(spec)
    (tmp_path / "tokenizer.json").write_text(json.dumps(spec))
    with pytest.raises(PublishedError, match=message):
        _vocabulary.read(tmp_path, {})


def test_deeply_nested_json_is_refused(tmp_path):
    (tmp_path / "tokenizer.json").write_text("[" * 200_000)
    with pytest.raises(PublishedError, match="damaged or cut short"):
        _vocabulary.read(tmp_path, {})
