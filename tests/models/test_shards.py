"""Tests of corpora in shards: they do not depend on the number of processes, are rebuilt if damaged, and are read like
one array."""

import gzip
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from ptmbench.models.objectives import sampling
from ptmbench.models.text import corpus as corpora
from ptmbench.models.text import pieces
from ptmbench.models.text.corpus import Corpus, CorpusError, open_corpora, read, store, stored_in
from ptmbench.models.text.joined import Bits, Joined
from ptmbench.models.text.shards import MANIFEST
from ptmbench.models.text.tokenizers import KINDS, Tokenizer
from ptmbench.models.text.words import Words

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def small_pieces(monkeypatch):
    """Pieces of 2000 characters, so that a few pages make many pieces."""
    monkeypatch.setattr(pieces, "PIECE", 2000)


@pytest.fixture(scope="module")
def texts() -> list[str]:
    rng = np.random.default_rng(0)
    words = ["".join(rng.choice(list("abcdest"), rng.integers(1, 8))) for _ in range(200)]
    return [" ".join(rng.choice(words, rng.integers(2, 20))).capitalize() + "." for _ in range(1200)]


@pytest.fixture(scope="module")
def files(texts, tmp_path_factory) -> list[Path]:
    """A text in files of every layout, one of them compressed."""
    folder = tmp_path_factory.mktemp("text")
    plain = "\n".join(text + "\n" * (number % 7 == 0) for number, text in enumerate(texts[:300]))
    wiki = "".join(f" \n = {text[:9]} = \n \n {text} \n \n {text} \n" for text in texts[300:500])
    book = "".join("CHAPTER IV.\n\n" * (number % 12 == 0) + text + "\n\n" for number, text in enumerate(texts[500:900]))
    lines = "\n".join(json.dumps({"text": " ".join(texts[i : i + 5])}) for i in range(900, 1200, 5))
    contents = {"a.txt": plain, "b.tokens": wiki, "c.txt": book, "e.txt": "One small file.\n"}
    for name, content in contents.items():
        (folder / name).write_text(content)
    (folder / "d.jsonl.gz").write_bytes(gzip.compress(lines.encode(), mtime=0))
    return [folder]


@pytest.fixture(scope="module")
def tokenizer(files) -> Tokenizer:
    return corpora.train_tokenizer(files, "wordpiece", 200)


def to_array(array) -> np.ndarray:
    return array.take(np.arange(len(array)), mode="wrap")


def test_pieces_end_at_the_ends_of_documents(files, monkeypatch):
    whole = list(read(files))
    for size in (500, 2000, 7000):
        monkeypatch.setattr(pieces, "PIECE", size)
        cut = list(pieces.pieces(files))
        assert len(cut) > 40_000 // size
        assert [document for piece in cut for part in piece for document in part.documents()] == whole


def test_very_long_document_is_split_at_lines(tmp_path, monkeypatch):
    path = tmp_path / "endless.txt"
    path.write_text("".join(f"Line number {number}.\n" for number in range(2000)))
    monkeypatch.setattr(pieces, "PIECE", 4000)
    documents = list(read([path]))
    assert [sentence for document in documents for sentence in document] == path.read_text().splitlines()
    assert 4 <= len(documents) <= 9
    assert max(sum(map(len, document)) for document in documents) < 3 * 4000


def test_error_names_the_line_number_in_the_file(tmp_path, small_pieces):
    path = tmp_path / "a.jsonl"
    path.write_text('{"text": "A sentence of some length, to fill pieces."}\n' * 500 + '{"text": 3}\n')
    with pytest.raises(CorpusError, match="line 501"):
        list(read([path]))


def test_shards_do_not_depend_on_the_number_of_processes(files, tokenizer, tmp_path, small_pieces):
    one, two = (store(files, tokenizer, tmp_path / str(count), processes=count) for count in (1, 2))
    assert len(one.shards) > 10
    for path in sorted((tmp_path / "1").iterdir()):
        assert path.read_bytes() == (tmp_path / "2" / path.name).read_bytes()
    assert two.total("documents") == len(list(read(files)))
    assert two.total("characters") == sum(len(sentence) for document in read(files) for sentence in document)


def test_shards_are_read_like_one_array(files, tokenizer, tmp_path, small_pieces):
    corpus = open_corpora([store(files, tokenizer, tmp_path / "shards", processes=1)])
    whole = Corpus(*(to_array(getattr(corpus, name)) for name in ("ids", "sentences", "documents", "heads")))
    encoded = [tokenizer.encode(document) for document in read(files)]
    assert whole.ids.tolist() == [i for document in encoded for sentence in document for i in sentence]
    assert np.diff(whole.sentences).tolist() == [len(sentence) for document in encoded for sentence in document]
    assert np.diff(whole.documents).tolist() == [len(document) for document in encoded]
    assert np.array_equal(to_array(corpus.openings), whole.openings)
    assert np.array_equal(corpus.counts(), np.bincount(whole.ids))
    rng = np.random.default_rng(1)
    where = rng.integers(-50, 2 * len(whole.ids), (40, 30))
    for name in ("ids", "heads"):
        assert np.array_equal(getattr(corpus, name).take(where), getattr(whole, name).take(where, mode="wrap"))
    for name in ("sentences", "documents", "openings"):
        one, other = getattr(corpus, name), getattr(whole, name)
        values = np.concatenate([rng.integers(0, other[-1] + 1, 300), other, other[:-1] + 1])
        for side in ("left", "right"):
            assert np.array_equal(one.searchsorted(values, side=side), other.searchsorted(values, side=side))


def test_samplers_read_the_same_text_from_shards_and_from_one_array(files, tokenizer, tmp_path, small_pieces):
    from ptmbench.models.objectives import lm, skipgram

    corpus = open_corpora([store(files, tokenizer, tmp_path / "shards", processes=1)])
    whole = Corpus(*(to_array(getattr(corpus, name)) for name in ("ids", "sentences", "documents", "heads")))
    assert isinstance(corpus.ids, Joined)
    vocabulary = tokenizer.vocabulary
    pairs = [sampling.Pairs(text, vocabulary, 32, 0.5) for text in (corpus, whole)]
    for one, other in (
        [lm.batches(text, vocabulary, 4, 32) for text in (corpus, whole)],
        [skipgram.batches(text, 4, 32) for text in (corpus, whole)],
        [lambda step, seed, made=made: made(step, 4, seed)[0] for made in pairs],
    ):
        for step in (0, 1, 50, 10_000):
            expected = other(step, 7)
            for name, rows in one(step, 7).items():
                assert np.array_equal(rows, expected[name]) and rows.dtype == expected[name].dtype


def test_interrupted_tokenisation_resumes_and_rebuilds_damaged_shards(files, tokenizer, tmp_path, small_pieces):
    whole = store(files, tokenizer, tmp_path / "whole", processes=1)

    class Stop(Exception):
        pass

    def stop(shard):
        if shard.name.endswith("000004.safetensors"):
            raise Stop

    with pytest.raises(Stop):
        store(files, tokenizer, tmp_path / "again", processes=1, made=stop)
    modification_times = {path.name: path.stat().st_mtime_ns for path in (tmp_path / "again").glob("*.safetensors")}
    assert len(modification_times) == 5 and not (tmp_path / "again" / MANIFEST).exists()
    assert stored_in(tmp_path / "again") is None
    (tmp_path / "again" / "shard-000002.safetensors").write_bytes(b"half")
    messages = []
    again = store(files, tokenizer, tmp_path / "again", processes=1, tell=messages.append)
    assert again.shards == whole.shards
    assert len(messages) == 1 and "shard-000002" in messages[0]
    for name, time_ in modification_times.items():
        is_rebuilt = (tmp_path / "again" / name).stat().st_mtime_ns != time_
        assert is_rebuilt == (name == "shard-000002.safetensors")
    assert {path.suffix for path in (tmp_path / "again").iterdir()} == {".json", ".safetensors"}


def test_tokenisation_resumes_after_a_killed_process(files, tokenizer, tmp_path, small_pieces):
    code = (
        "import sys, time\n"
        "from pathlib import Path\n"
        "from ptmbench.models.text import corpus\n"
        "from ptmbench.models.text import pieces\n"
        "from ptmbench.models.text.tokenizers import Tokenizer\n"
        "pieces.PIECE = 2000\n"
        "made = lambda shard: (print(shard.name, flush=True), time.sleep(0.2))\n"
        "text, tokenizer, out = map(Path, sys.argv[1:])\n"
        "corpus.store([text], Tokenizer.load(tokenizer), out, processes=1, made=made)\n"
    )
    tokenizer.save(tmp_path / "tokenizer.json")
    arguments = [str(files[0]), str(tmp_path / "tokenizer.json"), str(tmp_path / "out")]
    worker = subprocess.Popen([sys.executable, "-c", code, *arguments], cwd=ROOT, stdout=subprocess.PIPE, text=True)
    for _ in range(3):
        worker.stdout.readline()
    time.sleep(0.05)
    os.kill(worker.pid, signal.SIGKILL)
    worker.wait()
    worker.stdout.close()
    kept = len(list((tmp_path / "out").glob("*.safetensors")))
    assert 3 <= kept < 10
    made = []
    again = store(files, tokenizer, tmp_path / "out", processes=1, made=made.append)
    assert again.shards == store(files, tokenizer, tmp_path / "whole", processes=1).shards
    assert len(made) == len(again.shards)


def test_text_that_changes_during_tokenisation_raises_an_error(tokenizer, tmp_path, small_pieces):
    """The fingerprint is that of the text at the start."""
    text, out = tmp_path / "text.txt", tmp_path / "out"
    text.write_text("A cat sat on the mat. It slept.\n\n" * 300)

    def grow(shard):
        with text.open("a") as file:
            file.write("More.\n")

    with pytest.raises(CorpusError, match=r"text\.txt changed while it was tokenised"):
        store([text], tokenizer, out, processes=1, made=grow)
    assert stored_in(out) is None and not list(out.glob("*.json"))
    assert store([text], tokenizer, out, processes=1).total("documents") > 300


@pytest.mark.parametrize("more", [-1, 1])
def test_wrong_number_of_repeat_marks_raises_an_error(more, files, tokenizer, tmp_path, small_pieces, monkeypatch):
    """Otherwise the corpus would end with the shorter of the two."""
    marks = corpora._find_repeats

    def others(*arguments):
        result = marks(*arguments)
        return result[:more] if more < 0 else [*result, result[0]]

    monkeypatch.setattr(corpora, "_find_repeats", others)
    with pytest.raises(CorpusError, match="changed while it was tokenised"):
        store(files, tokenizer, tmp_path / "out", deduplicate="exact", processes=1)
    assert stored_in(tmp_path / "out") is None


def test_unrelated_files_in_the_folder_are_kept(files, tokenizer, tmp_path, small_pieces):
    others = {tmp_path / "film.mp4.part", tmp_path / "shard-list.json"}
    leftovers = {tmp_path / name for name in ("shard-000001.safetensors.17.part", "tokenised.json.17.part")}
    for path in others | leftovers:
        path.write_text("{}")
    store(files, tokenizer, tmp_path, processes=1)
    assert {path for path in others | leftovers if path.exists()} == others
    assert not list(tmp_path.glob("shard-0*.json"))


def test_damaged_or_different_folders_raise_an_error(files, tokenizer, tmp_path, small_pieces):
    folder = tmp_path / "shards"
    store(files, tokenizer, folder, processes=1)
    assert stored_in(tmp_path) is None
    with pytest.raises(CorpusError, match="holds another"):
        store(files, tokenizer, folder, deduplicate="exact", processes=1)
    path = folder / "shard-000001.safetensors"
    content = bytearray(path.read_bytes())
    content[-9] ^= 4
    path.write_bytes(content)
    with pytest.raises(CorpusError, match="shard-000001"):
        stored_in(folder)
    (folder / MANIFEST).write_text((folder / MANIFEST).read_text().replace('"tokens": ', '"tokens": 1'))
    with pytest.raises(CorpusError, match=MANIFEST):
        stored_in(folder)


def test_several_folders_are_joined_to_one_corpus(files, tokenizer, tmp_path, small_pieces):
    parts = [store([files[0] / name], tokenizer, tmp_path / name, processes=1) for name in ("a.txt", "c.txt")]
    corpus = open_corpora(parts)
    assert corpus.tokens == sum(part.total("tokens") for part in parts)
    assert corpus.fingerprint != open_corpora(parts[::-1]).fingerprint
    other = store([files[0] / "a.txt"], Tokenizer.train("word", ["a b c"], 60), tmp_path / "other", processes=1)
    with pytest.raises(CorpusError, match="different tokenizers"):
        open_corpora([parts[0], other])


@pytest.mark.parametrize("kind", KINDS)
def test_word_table_gives_the_ids_of_the_tokenizer(kind, texts):
    rng = np.random.default_rng(2)
    letters = list("abzAQ09 .,'’!-  \u0301\u00b4\u2581éİΣς今天\U0001f600\u200b\u00ad½\u1100\u1161\ufeff`ﬁ[#]▁Ġ")
    odd = [" ".join("".join(rng.choice(letters, rng.integers(1, 30))).split()) for _ in range(600)]
    lines = [text for text in [*texts[:50], *odd, *texts[:50]] if text]
    tokenizer = Tokenizer.train(kind, [*texts[:300], "Zoë's naïve café, 今天 天气! " * 5], 320)
    words = Words(tokenizer)
    for chosen in (lines[:300], lines):
        ids, sizes = words.encode(chosen)
        assert [part.tolist() for part in np.split(ids, np.cumsum(sizes)[:-1])] == tokenizer.encode(chosen)


def test_packed_bits_are_indexed_like_booleans():
    bits = np.random.default_rng(0).random(77) < 0.5
    where = np.array([0, 5, 76, 8, 7, 7])
    assert np.array_equal(Bits(np.packbits(bits))[where], bits[where])


@pytest.mark.parametrize("count", [1, 2, 3, 10, 97, 1000, 4096])
def test_the_order_of_windows_is_a_permutation(count):
    for key in range(5):
        places = sampling.permute_slots(np.arange(count), count, np.full(count, key, np.uint64))
        assert sorted(places.tolist()) == list(range(count))


def test_order_of_windows_is_statistically_random():
    orders = np.stack([sampling.permute_slots(np.arange(64), 64, np.full(64, key, np.uint64)) for key in range(4000)])
    seen = np.stack([np.bincount(orders[:, slot], minlength=64) for slot in range(64)])  # [slot, place]
    assert ((seen - 62.5) ** 2 / 62.5).sum() == pytest.approx(63 * 63, rel=0.06)  # chi-square, within its own spread
    follows = (np.diff(orders, axis=1) == 1).mean()
    assert follows == pytest.approx(1 / 64, rel=0.05)
    assert len({tuple(order) for order in orders.tolist()}) == 4000
