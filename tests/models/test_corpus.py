"""Tests of reading text in all its layouts, of tokenising it, and of the cache."""

import gzip
import json
import time
from functools import cache
from pathlib import Path

import numpy as np
import pytest

from ptmbench.models.text import pieces as texts
from ptmbench.models.text.corpus import Corpus, CorpusError, content_hash, read, tokenise, train_tokenizer
from ptmbench.models.text.layouts import sentences
from ptmbench.models.text.tokenizers import Tokenizer

DATA = Path(__file__).resolve().parents[2].parent / "shared" / "data"
PLAIN = "The cat sat. It slept.\nThe dog ran.\n\nA bird sang!\nIt flew.\n\n\nThe end came.\n"
DOCUMENTS = [["The cat sat.", "It slept.", "The dog ran."], ["A bird sang!", "It flew."], ["The end came."]]


def write(path: Path, text: str | bytes) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


@cache
def tokenizer() -> Tokenizer:
    return Tokenizer.train("wordpiece", [s for d in DOCUMENTS for s in d] * 5, 120)


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("a.txt", PLAIN.encode()),
        ("bom.txt", b"\xef\xbb\xbf" + PLAIN.encode()),
        ("crlf.txt", PLAIN.replace("\n", "\r\n").encode()),
        ("mac.txt", PLAIN.replace("\n", "\r").encode()),
        ("a.txt.gz", gzip.compress(PLAIN.encode(), mtime=0)),
        ("a.jsonl", "\n".join(json.dumps({"text": "\n".join(d), "id": 1}) for d in DOCUMENTS).encode()),
        (
            "a.jsonl.gz",
            gzip.compress("\n".join(json.dumps({"text": " ".join(d)}) for d in DOCUMENTS).encode(), mtime=0),
        ),
    ],
)
def test_layouts_give_the_same_documents(tmp_path, name, content):
    assert list(read([write(tmp_path / name, content)])) == DOCUMENTS


def test_pairs_of_translations(tmp_path):
    """Each side is one sentence, whatever full stops are in it. Pairs without one of the sides are skipped."""
    text = "One. Two  three.\tEins. Zwei drei.\n\n only one\t\n\u200b\tb\na\t\ufffd\n\u0301\tb\nfour\tvier\n"
    pairs = [["One. Two three.", "Eins. Zwei drei."], ["four", "vier"]]
    packed = gzip.compress(("\ufeff" + text.replace("\n", "\r\n")).encode(), mtime=0)
    for name, content in (("a.pairs.tsv", text), ("a.pairs.tsv.gz", packed)):
        path = write(tmp_path / name.partition(".")[2] / name, content)
        assert list(read([path])) == list(read([path.parent])) == pairs
        assert content_hash([path]) != content_hash([write(tmp_path / name.replace(".pairs", ""), content)])


def test_wikitext(tmp_path):
    text = (
        " \n = First thing = \n \n It is <unk> , the U.S. said . It @-@ ran . \n = Played , W = \n"
        " \n = = Part = = \n \n More . \n \n = Second = \n \n Text . \n"
    )
    first = [
        "= First thing =",
        "It is <unk> , the U.S. said .",
        "It @-@ ran .",
        "= Played , W =",
        "= = Part = =",
        "More .",
    ]
    for name in ("wiki.valid.tokens", "same.txt"):
        assert list(read([write(tmp_path / name, text)])) == [first, ["= Second =", "Text ."]]


def test_books(tmp_path):
    body = [
        f"It was a dark and stormy night number {i}, and the wind\nblew over the hills and\nfar away. Mr. Hill slept.\n"
        for i in range(12)
    ]
    text = "A TITLE\n\nCHAPTER I.\n\n" + "\n".join(body) + "\n\nCHAPTER II.\n\nTHE STORM\n\n" + "\n".join(body)
    first, second = read([write(tmp_path / "book.txt", b"\xef\xbb\xbf" + text.replace("\n", "\r\n").encode())])
    assert first[:4] == [
        "A TITLE",
        "CHAPTER I.",
        "It was a dark and stormy night number 0, and the wind blew over the hills and far away.",
        "Mr. Hill slept.",
    ]
    assert second[:2] == ["CHAPTER II.", "THE STORM"] and len(second) == 26


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Mr. A. B. Smith met Dr. Who. They left.", ["Mr. A. B. Smith met Dr. Who.", "They left."]),
        ('"Stop!" he said. "Why?" She ran.', ['"Stop!" he said.', '"Why?"', "She ran."]),
        ("It cost 3.50 in 1999. No more? None...", ["It cost 3.50 in 1999.", "No more?", "None..."]),
        ("今天很好。明天呢？好！", ["今天很好。", "明天呢？", "好！"]),
        ("e.g. This is one sentence", ["e.g. This is one sentence"]),
        ("  \n", []),
    ],
)
def test_sentences(text, expected):
    assert sentences(text) == expected


def test_folders_are_read_in_order(tmp_path):
    write(tmp_path / "b.txt", "Second.\n")
    write(tmp_path / "a" / "z.txt", "First.\n")
    write(tmp_path / "README.md", "Not text of the corpus.\n")
    assert list(read([tmp_path])) == [["First."], ["Second."]]


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("empty.txt", b"", "no text"),
        ("blank.txt", b" \n\n \n", "no text"),
        ("latin.txt", "caf\xe9 au lait\n".encode("latin-1"), "0xe9"),
        ("cut.txt.gz", gzip.compress(PLAIN.encode() * 100, mtime=0)[:-30], "gzip"),
        ("not.txt.gz", b"plain text", "gzip"),
        ("bad.jsonl", b'{"text": "ok"}\n{"text": 3}\n', "line 2"),
        ("worse.jsonl", b'{"text": "ok"}\n\nnothing\n', "line 3"),
        ("deep.jsonl", b'{"text": "ok"}\n' + b"[" * 100_000, "line 2"),
        ("one.pairs.tsv", b"a\tb\n\nc\n", "line 3: expected a text, one tab and its translation, found 'c"),
        ("three.pairs.tsv", b"a\tb\tc\n", "line 1"),
    ],
)
def test_bad_files_raise_an_error_with_their_path(tmp_path, name, content, message):
    path = write(tmp_path / name, content)
    with pytest.raises(CorpusError, match=message) as caught:
        list(read([path]))
    assert str(path) in str(caught.value)


def test_missing_files_raise_an_error(tmp_path):
    with pytest.raises(CorpusError, match="no corpus file"):
        list(read([tmp_path / "nowhere.txt"]))
    with pytest.raises(CorpusError, match="holds no text"):
        list(read([tmp_path]))
    with pytest.raises(CorpusError, match="No corpus file was given"):
        tokenise([], tokenizer())


def test_tokenise(tmp_path):
    corpus = tokenise([write(tmp_path / "a.txt", "\u200b\n\n" + PLAIN)], tokenizer())
    flat = [sentence for document in DOCUMENTS for sentence in document]
    bounds = zip(corpus.sentences[:-1], corpus.sentences[1:], strict=True)
    assert [list(corpus.ids[a:b]) for a, b in bounds] == tokenizer().encode(flat)
    assert corpus.documents.tolist() == [0, 3, 5, 6]
    assert (corpus.ids.dtype, corpus.sentences.dtype, corpus.heads.dtype) == (np.uint16, np.int64, bool)
    assert corpus.tokens == len(corpus.ids) == len(corpus.heads)
    assert corpus.heads[corpus.sentences[:-1]].all()
    assert corpus.heads.sum() == sum(len(s.split()) + 1 for s in flat)  # each sentence ends with one punctuation mark


def is_same_corpus(one: Corpus, other: Corpus) -> bool:
    fields = ("ids", "sentences", "documents", "heads", "openings")
    return one.fingerprint == other.fingerprint and all(
        np.array_equal(to_array(getattr(one, field)), getattr(other, field)) for field in fields
    )


def to_array(array) -> np.ndarray:
    return array.take(np.arange(len(array)), mode="wrap")


def test_cache(tmp_path, monkeypatch):
    path, folder = write(tmp_path / "a.txt", PLAIN), tmp_path / "cache"
    first = tokenise([path], tokenizer())
    assert is_same_corpus(tokenise([path], tokenizer(), folder), first)
    (stored,) = folder.rglob("*.safetensors")
    whole = stored.read_bytes()
    with monkeypatch.context() as patch:
        patch.setattr(Tokenizer, "encode", None)  # would fail if the cache were not used
        assert is_same_corpus(tokenise([path], tokenizer(), folder), first)
        moved = write(tmp_path / "elsewhere" / "b.txt", PLAIN)
        assert is_same_corpus(tokenise([moved], tokenizer(), folder), first)
    damaged = bytearray(whole)
    damaged[whole.index(first.ids.tobytes()) + 4] ^= 1
    for content in (bytes(damaged), whole[: len(whole) // 2], b""):
        stored.write_bytes(content)
        messages = []
        assert is_same_corpus(tokenise([path], tokenizer(), folder, tell=messages.append), first)
        assert stored.read_bytes() == whole
        assert len(messages) == 1 and str(stored) in messages[0]
    write(path, PLAIN + "One more.\n")
    assert tokenise([path], tokenizer(), folder).fingerprint != first.fingerprint
    assert not list(folder.rglob("*.part"))


def test_unwritable_cache_raises_an_error(tmp_path):
    path, blocked = write(tmp_path / "a.txt", PLAIN), write(tmp_path / "file", "in the way")
    with pytest.raises(CorpusError, match="Cannot write"):
        tokenise([path], tokenizer(), blocked)


def test_train_tokenizer(tmp_path, monkeypatch):
    path, folder = write(tmp_path / "a.txt", PLAIN * 5), tmp_path / "cache"
    first = train_tokenizer([path], "wordpiece", 100, folder)
    assert first.fingerprint == Tokenizer.train("wordpiece", [s for d in read([path]) for s in d], 100).fingerprint
    assert train_tokenizer([path], "word", 100, folder).kind == "word"
    assert train_tokenizer([path], "wordpiece", 90, folder).fingerprint != first.fingerprint
    for stored in folder.iterdir():
        stored.write_text("{")
    assert train_tokenizer([path], "wordpiece", 100, folder).fingerprint == first.fingerprint
    monkeypatch.setattr(Tokenizer, "train", None)
    assert train_tokenizer([path], "wordpiece", 100, folder).fingerprint == first.fingerprint


def test_tokenizer_is_trained_on_a_sample_of_a_large_text(tmp_path, monkeypatch):
    lines = "".join(f"Paragraph number {number} of the story.\n\n" for number in range(4000))
    path = write(tmp_path / "a.txt", lines)
    seen = []
    monkeypatch.setattr(Tokenizer, "train", lambda kind, texts, size, lowercase: seen.append(list(texts)))
    monkeypatch.setattr("ptmbench.models.text.corpus._DRAWN", 1000)
    for sample in (len(lines), len(lines) // 4, len(lines) // 4):
        monkeypatch.setattr("ptmbench.models.text.corpus.SAMPLE", sample)
        train_tokenizer([path], "wordpiece", 100)
    whole, quarter, again = seen
    assert whole == [sentence for document in read([path]) for sentence in document]
    assert quarter == again and set(quarter) < set(whole)
    assert 0.15 * len(whole) < len(quarter) < 0.35 * len(whole)
    middle = whole.index(quarter[len(quarter) // 2]) / len(whole)
    assert 0.3 < middle < 0.7  # from all over the text


def test_content_hash_depends_on_the_layout(tmp_path):
    names = ("a.txt", "b.txt", "a.tokens")
    a, b, other = (content_hash([write(tmp_path / name, PLAIN)]) for name in names)
    assert a == b != other


@pytest.mark.skipif(not (DATA / "wikitext-2").is_dir(), reason="the real wikitext-2 is not beside this clone")
def test_real_wikitext_has_its_articles():
    for split, articles in (("valid", 60), ("test", 60)):
        path = DATA / "wikitext-2" / f"wiki.{split}.tokens"
        documents = list(read([path]))
        assert len(documents) == articles
        words = sum(len(sentence.split()) for document in documents for sentence in document)
        assert words == len(path.read_text(encoding="utf-8").split())


@pytest.mark.skipif(not (DATA / "books_en").is_dir(), reason="the real novels are not beside this clone")
def test_real_novels_have_their_chapters():
    chapters = {"Cbronte_Jane_1847": 39, "Conrad_Nostromo_1904": 31, "Dickens_Oliver_1839": 54, "Forster_View_1908": 20}
    for name, count in chapters.items():
        documents = list(read([DATA / "books_en" / f"{name}.txt"]))
        assert len(documents) == count
        everything = [sentence for document in documents for sentence in document]
        assert 10 < np.mean([len(sentence.split()) for sentence in everything]) < 25
        assert not any("\r" in sentence or "\n" in sentence or "\ufeff" in sentence for sentence in everything)


@pytest.mark.slow
@pytest.mark.skipif(not (DATA / "books_en").is_dir(), reason="the real corpora are not beside this clone")
def test_thirty_megabytes_take_less_than_a_minute_of_processor_time():
    files = [DATA / "wikitext-2" / "wiki.train.tokens", *sorted((DATA / "books_en").glob("*_*.txt"))]
    began = time.process_time()
    corpus = tokenise(files, train_tokenizer(files, "wordpiece", 8000))
    assert time.process_time() - began < 60
    assert corpus.tokens > 7_000_000 and (corpus.ids == 1).mean() < 0.001


def test_gzip_file_that_would_fill_the_memory_raises_an_error(tmp_path, monkeypatch):
    monkeypatch.setattr(texts, "SMALL", 10_000)
    path = tmp_path / "bomb.txt.gz"
    path.write_bytes(gzip.compress(b"0" * 2_000_000))  # one line, which would be read as a whole
    with pytest.raises(texts.CorpusError, match="bomb.txt.gz, whose gzip stream unpacks to over 100 times"):
        list(texts.pieces([path]))
