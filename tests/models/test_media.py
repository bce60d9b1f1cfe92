"""Pictures of a corpus: from a file of regions to the documents, and the errors of wrong files."""

import json
from pathlib import Path

import numpy as np
import pytest

from ptmbench.models.objectives import sip
from ptmbench.models.text import pieces as texts
from ptmbench.models.text.annotations import widths_of
from ptmbench.models.text.corpus import (
    Corpus,
    CorpusError,
    content_hash,
    open_corpora,
    store,
    tokenise,
    train_tokenizer,
)
from ptmbench.models.text.joined import Joined
from ptmbench.models.text.pieces import CorpusUnfit
from ptmbench.models.text.sidecars import sidecar_of, write
from ptmbench.models.text.tokenizers import Tokenizer
from tests.models.networks import VOCABULARY, captions, corpus

TEXT = "a dog runs .\ntwo dogs run .\n\nno picture here .\n\na cat sits .\nthe cat sleeps .\nit rests .\n"
BOX = np.array([0.1, 0.2, 0.3, 0.4], np.float32)
SIZES = {"dog": 3, "cat": 2, "unseen": 1}
LINES = [(2, {"picture": "dog"}), (6, {"picture": "cat"}), (8, {"picture": "cat"})]


def pictures(folder: Path, features: int = 5, name: str = "a.npz", **changes: object) -> Path:
    """A file of pictures whose first feature is the number of the region."""
    total = sum(SIZES.values())
    regions = np.random.default_rng(0).normal(size=(total, features)).astype(np.float32)
    regions[:, 0] = np.arange(total)
    arrays = {"ids": np.array(list(SIZES)), "ends": np.cumsum(list(SIZES.values())), "regions": regions}
    arrays |= {"boxes": np.tile(BOX, (total, 1))} | changes
    np.savez(folder / name, **{key: array for key, array in arrays.items() if array is not None})
    return folder / name


def made(folder: Path, name: str = "a.txt", lines=LINES, **options: object) -> Path:
    path = folder / name
    path.write_text(TEXT, encoding="utf-8")
    write(path, lines, pictures=pictures(folder, name=f"{path.stem}.npz", **options))
    return path


@pytest.mark.parametrize("cached", [False, True])
def test_documents_have_their_pictures(tmp_path, cached):
    text = made(tmp_path)
    cut = train_tokenizer([text], "word", 80)
    assert cut.widths == {"regions": 5} and cut.vocabulary.widths == {"regions": 5}
    assert Tokenizer.load(_saved(cut, tmp_path)).widths == {"regions": 5}
    found = tokenise([text], cut, tmp_path / "cache" if cached else None)
    assert found.media.counts().tolist() == [3, 0, 2]
    shown = found.media.of(np.array([2, 0, 1]), 3)
    assert shown["regions"][:, :, 0].tolist() == [[3, 4, 0], [0, 1, 2], [0, 0, 0]]
    assert shown["boxes"].any(axis=-1).tolist() == [[True, True, False], [True] * 3, [False] * 3]
    assert shown["boxes"][1, 2].tolist() == BOX.tolist()
    assert found.media.of(np.array([0]), 2)["regions"][0, :, 0].tolist() == [0, 1]  # no room for the third


def _saved(cut: Tokenizer, folder: Path) -> Path:
    cut.save(folder / "tokenizer.json")
    return folder / "tokenizer.json"


def test_shards_are_looked_up_as_one_array(tmp_path, monkeypatch):
    monkeypatch.setattr(texts, "PIECE", 45)
    paths = [made(tmp_path, f"{name}.txt") for name in "ab"]
    cut = train_tokenizer(paths, "word", 80)
    stored = store(paths, cut, tmp_path / "out", processes=1)
    found, whole = open_corpora([stored]), tokenise(paths, cut)
    assert isinstance(found.media.offsets, Joined) and len(stored.shards) > 1
    assert found.media.counts().tolist() == whole.media.counts().tolist() == [3, 0, 2] * 2
    documents = np.arange(6)[::-1]
    for name, array in whole.media.of(documents, 3).items():
        assert np.array_equal(array, found.media.of(documents, 3)[name])


def test_pictures_count_in_the_hash_of_a_corpus_and_text_without_any_is_as_before(tmp_path):
    text = made(tmp_path)
    before = content_hash([text])
    pictures(tmp_path, boxes=np.tile(BOX / 2, (6, 1)))
    assert content_hash([text]) != before
    sidecar_of(text).unlink()
    plain = train_tokenizer([text], "word", 80)
    assert plain.widths == {} and "widths" not in plain.to_json() and tokenise([text], plain).media is None


def test_a_tokenizer_that_knows_no_pictures_passes_them_over(tmp_path):
    text = made(tmp_path)
    assert tokenise([text], Tokenizer.train("word", TEXT.split("\n"), 80)).media is None


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"ids": None}, '"ids" must be the names'),
        ({"ids": np.array(["dog", "dog", "cat"])}, '"ids" must be the names'),
        ({"ends": np.array([3, 2, 6])}, '"ends" must say where the regions of each of 3 names end'),
        ({"boxes": None}, "has the arrays regions. Expected ids, ends, regions and boxes"),
        ({"smells": np.zeros((6, 2))}, "has the arrays boxes, regions, smells"),
        ({"regions": np.zeros((5, 5))}, r'"regions" is an array of decimal numbers of shape \[6, F\]'),
        ({"boxes": np.zeros((6, 5))}, r'"boxes" is an array of decimal numbers of shape \[6, 4\]'),
        ({"regions": np.full((6, 5), np.nan)}, 'row 0 of "regions" holds a number that is not finite'),
        ({"boxes": np.tile(BOX[::-1], (6, 1))}, 'row 0 of "boxes" is'),
        ({"regions": np.array([[object()]] * 6)}, "is damaged, or no .npz file"),
    ],
)
def test_a_wrong_file_of_pictures_is_told(tmp_path, changes, words):
    with pytest.raises(CorpusError, match=words) as error:
        made(tmp_path, **changes)
    assert "a.npz" in str(error.value) and not sidecar_of(tmp_path / "a.txt").exists()


@pytest.mark.parametrize(
    ("lines", "words"),
    [
        ([(2, {"picture": "dog"}), (4, {"picture": "hog"})], "line 3: the picture 'hog' is unknown: .*a.npz has no"),
        ([(2, {"picture": 7})], 'line 2: "picture" is the name of a picture, not 7'),
    ],
)
def test_a_wrong_line_is_told_when_it_is_written(tmp_path, lines, words):
    with pytest.raises(CorpusError, match=words) as error:
        made(tmp_path, lines=lines)
    assert "a.txt.layers.jsonl, line" in str(error.value)


@pytest.mark.parametrize(
    ("lines", "words"),
    [
        ([(1, {"picture": "dog"}), (2, {"picture": "cat"})], "line 3: the document has the picture 'dog' already"),
        (
            [(1, {"picture": "dog"}), (3, {"picture": "cat"})],
            "line 3: the picture 'cat' belongs to line 3 of .*no text",
        ),
    ],
)
def test_a_picture_in_the_wrong_place_is_told(tmp_path, lines, words):
    text = made(tmp_path, lines=lines)
    with pytest.raises(CorpusError, match=words) as error:
        tokenise([text], train_tokenizer([text], "word", 80))
    assert "a.txt.layers.jsonl" in str(error.value)


def test_a_damaged_or_missing_file_is_told_with_the_line_that_names_it(tmp_path):
    text = made(tmp_path)
    content = (tmp_path / "a.npz").read_bytes()
    (tmp_path / "a.npz").write_bytes(content[:-9])
    with pytest.raises(CorpusError, match=r"a.txt.layers.jsonl, line 1: the file of pictures .*a.npz is damaged"):
        train_tokenizer([text], "word", 80)
    (tmp_path / "a.npz").unlink()
    with pytest.raises(CorpusError, match=r"a.txt.layers.jsonl, line 1: there is no file of pictures"):
        train_tokenizer([text], "word", 80)
    head, *rest = sidecar_of(text).read_text().split("\n")
    sidecar_of(text).write_text("\n".join([json.dumps(json.loads(head) | {"pictures": "a.npz"}), *rest]))
    with pytest.raises(CorpusError, match='line 1: "pictures" has a "file" and its "sha256"'):
        content_hash([text])


def test_features_of_two_numbers_are_told(tmp_path):
    one, other = made(tmp_path), made(tmp_path, "b.txt", features=7)
    with pytest.raises(CorpusError, match='b.npz has 7 features, and "regions" of .*a.npz has 5'):
        widths_of([one, other])
    with pytest.raises(CorpusError, match="b.npz has 7 features, and the tokenizer knows 5"):
        tokenise([other], train_tokenizer([one], "word", 80))


def sampled(text: Corpus, steps: int, length: int = 30, room: int = 4):
    """Captions of all rows of ``steps``: the document of the picture, those of A and B, and whether they are said to
    be of one picture."""
    sampler = sip.Captions(text, VOCABULARY, length, room)
    told = {}
    for document, (begin, end) in enumerate(zip(text.documents, text.documents[1:], strict=False)):
        for one in range(begin, end):
            words = tuple(text.ids[text.sentences[one] : text.sentences[one + 1]].tolist())
            told.setdefault(words, set()).add(document)
    for step in range(steps):
        rows, _ = sampler(step, 16, 1)
        shown = text.media.of(np.arange(len(text.documents) - 1), room)["regions"]
        for row in range(16):
            tokens = rows["tokens"][row]
            marks = np.flatnonzero(tokens == VOCABULARY.sep)
            assert tokens[0] == VOCABULARY.cls and len(marks) == 2 and not tokens[marks[1] + 1 :].any()
            assert rows["segments"][row].tolist() == [int(marks[0] < i <= marks[1]) for i in range(length)]
            first, second = tuple(tokens[1 : marks[0]].tolist()), tuple(tokens[marks[0] + 1 : marks[1]].tolist())
            of = {n for n, one in enumerate(shown) if np.array_equal(one, rows["regions"][row])}
            yield of, told[first], told[second], first, second, rows["next"][row]


def test_captions_are_of_the_picture_or_drawn_and_every_one_is_first_once():
    text, related, seen = captions(), 0, []
    for of, first, second, a, _, label in sampled(text, 23):
        assert of & first
        assert bool(of & second) or not label
        related += label
        seen.append(a)
    assert len(seen) == 368 and 368 * 0.4 < related < 368 * 0.6
    every = [tuple(text.ids[b:e].tolist()) for b, e in zip(text.sentences, text.sentences[1:], strict=False)]
    assert sorted(seen[:360]) == sorted(every)


def test_long_captions_are_cut_and_short_rows_padded():
    rows, _ = sip.Captions(captions(), VOCABULARY, 10, 4)(0, 64, 1)
    marks = np.array([np.flatnonzero(row == VOCABULARY.sep) for row in rows["tokens"]])
    assert (marks[:, 1] == 9).mean() > 0.9 and (marks[:, 0] >= 4).all()  # both of at least 4 tokens, 7 in all


def test_a_corpus_without_pictures_is_unfit():
    with pytest.raises(CorpusUnfit, match="--pictures FILE"):
        sip.Captions(corpus(), VOCABULARY, 24, 4)
    from dataclasses import replace

    single = replace(captions(), documents=np.arange(0, 361), openings=None)
    alone = replace(single, media=replace(captions().media, offsets=np.pad([0, 1], (0, 359), mode="edge")))
    with pytest.raises(CorpusUnfit, match="has 0 documents with a picture and two captions"):
        sip.Captions(alone, VOCABULARY, 24, 4)
