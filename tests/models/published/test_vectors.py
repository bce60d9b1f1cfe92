"""Files of word vectors from other programs are read without rounding, and damaged files are refused."""

import gzip
import struct

import numpy as np
import pytest

from ptmbench.bench.__main__ import main
from ptmbench.bench.engine.checkpoint import read as checkpoint
from ptmbench.models.published import PublishedError, vectors
from ptmbench.models.text.tokenizers import Tokenizer

CHINESE = "\u4e2d\u6587"
WORDS = ["the", "u.s.", "do", "n't", "'s", "new-york", "café", CHINESE, "said", "...", ".", "<unk>", "said", "3.5"]
TABLE = np.random.default_rng(0).normal(size=(len(WORDS), 6)).astype(np.float32)


def text_file(words=WORDS, table=TABLE, sizes=True):
    lines = [f"{word} {' '.join(repr(float(x)) for x in row)}" for word, row in zip(words, table, strict=True)]
    return "\n".join([f"{len(words)} {table.shape[1]}"] * sizes + lines).encode() + b"\n"


def binary_file(end=b"\n"):
    rows = (word.encode() + b" " + row.tobytes() + end for word, row in zip(WORDS, TABLE, strict=True))
    return f"{len(WORDS)} {TABLE.shape[1]}\n".encode() + b"".join(rows)


@pytest.fixture
def write_file(tmp_path):
    def write_content(content):
        (tmp_path / "file").write_bytes(content)
        return tmp_path / "file"

    return write_content


@pytest.mark.parametrize(
    ("content", "model", "layout"),
    [
        (text_file(), "word2vec", "text"),
        (text_file().replace(b"\n", b" \r\n"), "word2vec", "text"),  # fastText ends lines with a space
        (text_file(sizes=False), "glove", "text without sizes"),
        (binary_file(), "word2vec", "binary"),  # the authors' program
        (binary_file(b""), "word2vec", "binary"),  # gensim
        (gzip.compress(binary_file()), "word2vec", "binary"),
    ],
)
def test_every_layout_gives_the_same_table(write_file, content, model, layout):
    result = vectors.read(write_file(content))
    assert (result.model, result.config["layout"], result.size.width) == (model, layout, 6)
    assert result.config == {"layout": layout, "words": 14}
    assert result.left_out == (CHINESE,)  # texts are split into single Chinese characters
    kept = [word for word in WORDS[:-2] if word not in (CHINESE, "<unk>")] + ["3.5"]
    assert list(result.tokenizer.vocabulary.pieces[37:]) == kept
    for word in kept:  # if a word occurs twice, its first vector counts
        assert np.array_equal(result.table[result.tokenizer.encode([word])[0]], TABLE[[WORDS.index(word)]])
    assert np.array_equal(result.table[1], TABLE[WORDS.index("<unk>")]) and not result.table[[0, 2, 3, 4, 36]].any()


def test_unknown_words_get_the_mean_vector_if_the_file_has_none_for_them(write_file):
    result = vectors.read(write_file(text_file(["a", "b", "c"], TABLE[:3])), most=2)
    assert result.tokenizer.vocabulary.size == 39
    np.testing.assert_allclose(result.table[1], TABLE[:2].mean(axis=0), rtol=1e-6)


def test_texts_are_tokenized_like_the_words_of_the_file(write_file):
    tokenizer = vectors.read(write_file(text_file())).tokenizer
    for sentence, pieces in {
        "The U.S. said": "the u.s. said",
        "I don't": "[UNK] do n't",
        "do n't": "do n't",
        "the New-York-said...": "the new-york [UNK] said . . .",  # a word with punctuation must stand alone
        "Café's 3.5": "café 's 3.5",
        "wait [MASK]": "[UNK] [UNK] [UNK] [UNK]",
    }.items():
        assert " ".join(tokenizer.pieces(tokenizer.encode([sentence])[0])) == pieces
    ((_, offsets),) = tokenizer.encode_with_offsets(["The U.S. do n't"])
    assert offsets == [(0, 3), (4, 8), (9, 11), (12, 15)]
    assert tokenizer.encode_words([["U.S.", "3.5"]]) == [([38, 47], [0, 1])]
    copy = Tokenizer("word", tokenizer.spec)
    assert copy.fingerprint == tokenizer.fingerprint and copy.encode(["the u.s."]) == tokenizer.encode(["the u.s."])
    cased = vectors.read(write_file(text_file(["The", "the", "don"], TABLE[:3]))).tokenizer
    assert [cased.pieces(ids) for ids in cased.encode(["The the THE don't"])] == [
        ["The", "the", "[UNK]", "don", "[UNK]", "[UNK]"]
    ]


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "no word vectors"),
        (b"hello\nthere\n", "no word vectors"),
        (b"0 5\n", "no word vectors"),
        (f"1 2\n{CHINESE} 1 2\n".encode(), "no word that a text"),
        (binary_file()[:-9], "word 14 of 14"),
        (binary_file()[:-10], "word 14 of 14"),
        (text_file().replace(b"14 6", b"15 6"), "word 15 of 15"),
        (text_file().replace(b"14 6", b"1000000000 300"), "shorter than"),
        (text_file().replace(b"said ", b"said x", 1), "word 9 of 14"),
        (gzip.compress(text_file())[:-20], "cut short"),
        (gzip.compress(text_file())[:40] + b"xxxx" + gzip.compress(text_file())[44:], "damaged"),
        (struct.pack("<ii", 793712314, 12) + b"\0" * 99, "fastText's own"),
    ],
)
def test_invalid_vector_files_are_refused(write_file, content, said):
    with pytest.raises(PublishedError, match=said):
        vectors.read(write_file(content))


def test_imported_vectors_solve_analogies_and_are_exported_unchanged(write_file, tmp_path, capsys):
    words = ["man", "king", "woman", "queen", "apple"]
    table = np.float32([[1, 0, 0, 0], [1, 1, 0, 0], [0, 0, 1, 0], [0, 1, 1, 0], [0, 0, 0, 1]])
    file, data, out = write_file(text_file(words, table, sizes=False)), tmp_path / "data", tmp_path / "c"
    (data / "google_analogy").mkdir(parents=True)
    questions = ": royal\nman king woman queen\nking queen apple man\n"
    (data / "google_analogy" / "questions-words.txt").write_text(questions)
    assert main(["import", str(file), "--out", str(out), "--name", "theirs"]) == 0
    captured = capsys.readouterr()
    assert "so initialised at random: loss/bias, loss/context_bias." in captured.err
    about = checkpoint(out).about
    assert (about["model"], about["size"], about["division"], about["name"]) == ("glove", "4", "published", "theirs")
    given = ["--tasks", "word_analogy", "--data", str(data), "--out", str(tmp_path / "run"), "--jobs", "1"]
    assert main(["evaluate", str(out), *given]) == 0
    assert "word_analogy words seed 0: 50.00" in capsys.readouterr().err
    assert main(["export", str(out), "--out", str(tmp_path / "new" / "back")]) == 0
    assert np.array_equal(vectors.read(tmp_path / "new" / "back").table[37:], table)
    assert main(["export", str(out), "--out", str(tmp_path / "new" / "back")]) == 4
    gensim = pytest.importorskip("gensim.models", reason="gensim is not installed")
    loaded = gensim.KeyedVectors.load_word2vec_format(str(tmp_path / "new" / "back"))
    assert loaded.index_to_key == words and np.array_equal(loaded.vectors, table)


def test_import_of_vectors_refuses_other_models_infinite_values_and_options(write_file, tmp_path, capsys):
    file = write_file(text_file())
    for model in ("bert", "fasttext", "glvoe"):
        assert main(["import", str(file), "--out", str(tmp_path / "c"), "--model", model]) == 4
        assert f"or glove, not '{model}'" in capsys.readouterr().err and not (tmp_path / "c").exists()
    assert main(["import", str(write_file(text_file(table=TABLE * np.inf))), "--out", str(tmp_path / "c")]) == 4
    assert "NaN or infinite" in capsys.readouterr().err and not (tmp_path / "c").exists()
    (tmp_path / "folder").mkdir()
    assert main(["import", str(tmp_path / "folder"), "--out", str(tmp_path / "c"), "--vocabulary", "5"]) == 2
    assert "leave --model and --vocabulary out" in capsys.readouterr().err
