"""Files of word vectors: what other programs leave is read to the bit, and what is damaged is told."""

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


def text(words=WORDS, table=TABLE, sizes=True):
    lines = [f"{word} {' '.join(repr(float(x)) for x in row)}" for word, row in zip(words, table, strict=True)]
    return "\n".join([f"{len(words)} {table.shape[1]}"] * sizes + lines).encode() + b"\n"


def binary(end=b"\n"):
    rows = (word.encode() + b" " + row.tobytes() + end for word, row in zip(WORDS, TABLE, strict=True))
    return f"{len(WORDS)} {TABLE.shape[1]}\n".encode() + b"".join(rows)


@pytest.fixture
def written(tmp_path):
    def write(content):
        (tmp_path / "file").write_bytes(content)
        return tmp_path / "file"

    return write


@pytest.mark.parametrize(
    ("content", "model", "layout"),
    [
        (text(), "word2vec", "text"),
        (text().replace(b"\n", b" \r\n"), "word2vec", "text"),  # fastText ends lines with a space
        (text(sizes=False), "glove", "text without sizes"),
        (binary(), "word2vec", "binary"),  # the authors' program
        (binary(b""), "word2vec", "binary"),  # gensim
        (gzip.compress(binary()), "word2vec", "binary"),
    ],
)
def test_every_layout_gives_the_same_table(written, content, model, layout):
    found = vectors.read(written(content))
    assert (found.model, found.config["layout"], found.size.width) == (model, layout, 6)
    assert found.config == {"layout": layout, "words": 14}
    assert found.left_out == (CHINESE,)  # texts are cut into single signs
    kept = [word for word in WORDS[:-2] if word not in (CHINESE, "<unk>")] + ["3.5"]
    assert list(found.tokenizer.vocabulary.pieces[37:]) == kept
    for word in kept:  # of a word that comes twice the first one counts
        assert np.array_equal(found.table[found.tokenizer.encode([word])[0]], TABLE[[WORDS.index(word)]])
    assert np.array_equal(found.table[1], TABLE[WORDS.index("<unk>")]) and not found.table[[0, 2, 3, 4, 36]].any()


def test_without_a_vector_for_them_unknown_words_have_the_mean(written):
    found = vectors.read(written(text(["a", "b", "c"], TABLE[:3])), most=2)
    assert found.tokenizer.vocabulary.size == 39
    np.testing.assert_allclose(found.table[1], TABLE[:2].mean(axis=0), rtol=1e-6)


def test_texts_are_cut_as_the_file_was(written):
    tokenizer = vectors.read(written(text())).tokenizer
    for sentence, pieces in {
        "The U.S. said": "the u.s. said",
        "I don't": "[UNK] do n't",
        "do n't": "do n't",
        "the New-York-said...": "the new-york [UNK] said . . .",  # a word with marks stands alone
        "Café's 3.5": "café 's 3.5",
        "wait [MASK]": "[UNK] [UNK] [UNK] [UNK]",
    }.items():
        assert " ".join(tokenizer.pieces(tokenizer.encode([sentence])[0])) == pieces
    ((_, offsets),) = tokenizer.encode_with_offsets(["The U.S. do n't"])
    assert offsets == [(0, 3), (4, 8), (9, 11), (12, 15)]
    assert tokenizer.encode_words([["U.S.", "3.5"]]) == [([38, 47], [0, 1])]
    again = Tokenizer("word", tokenizer.spec)
    assert again.fingerprint == tokenizer.fingerprint and again.encode(["the u.s."]) == tokenizer.encode(["the u.s."])
    cased = vectors.read(written(text(["The", "the", "don"], TABLE[:3]))).tokenizer
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
        (binary()[:-9], "word 14 of 14"),
        (binary()[:-10], "word 14 of 14"),
        (text().replace(b"14 6", b"15 6"), "word 15 of 15"),
        (text().replace(b"14 6", b"1000000000 300"), "shorter than"),
        (text().replace(b"said ", b"said x", 1), "word 9 of 14"),
        (gzip.compress(text())[:-20], "cut short"),
        (gzip.compress(text())[:40] + b"xxxx" + gzip.compress(text())[44:], "damaged"),
        (struct.pack("<ii", 793712314, 12) + b"\0" * 99, "fastText's own"),
    ],
)
def test_what_is_no_file_of_vectors_is_told(written, content, said):
    with pytest.raises(PublishedError, match=said):
        vectors.read(written(content))


def test_imported_vectors_answer_questions_and_go_back_to_where_they_came_from(written, tmp_path, capsys):
    words = ["man", "king", "woman", "queen", "apple"]
    table = np.float32([[1, 0, 0, 0], [1, 1, 0, 0], [0, 0, 1, 0], [0, 1, 1, 0], [0, 0, 0, 1]])
    file, data, out = written(text(words, table, sizes=False)), tmp_path / "data", tmp_path / "c"
    (data / "google_analogy").mkdir(parents=True)
    questions = ": royal\nman king woman queen\nking queen apple man\n"
    (data / "google_analogy" / "questions-words.txt").write_text(questions)
    assert main(["import", str(file), "--out", str(out), "--name", "theirs"]) == 0
    told = capsys.readouterr()
    assert "objective's weights begin afresh: loss/bias, loss/context_bias." in told.err
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


def test_vectors_become_tables_only(written, tmp_path, capsys):
    file = written(text())
    for model in ("bert", "fasttext", "glvoe"):
        assert main(["import", str(file), "--out", str(tmp_path / "c"), "--model", model]) == 4
        assert f"or glove, not '{model}'" in capsys.readouterr().err and not (tmp_path / "c").exists()
    assert main(["import", str(written(text(table=TABLE * np.inf))), "--out", str(tmp_path / "c")]) == 4
    assert "NaN or infinite" in capsys.readouterr().err and not (tmp_path / "c").exists()
    (tmp_path / "folder").mkdir()
    assert main(["import", str(tmp_path / "folder"), "--out", str(tmp_path / "c"), "--vocabulary", "5"]) == 2
    assert "leave --model and --vocabulary out" in capsys.readouterr().err
