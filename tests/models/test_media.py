"""Tests of the pictures of a corpus: from a file of regions to the documents, and the errors for wrong files."""

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
    """Writes a file of pictures. The first feature of a region is its number."""
    total = sum(SIZES.values())
    regions = np.random.default_rng(0).normal(size=(total, features)).astype(np.float32)
    regions[:, 0] = np.arange(total)
    arrays = {"ids": np.array(list(SIZES)), "ends": np.cumsum(list(SIZES.values())), "regions": regions}
    arrays |= {"boxes": np.tile(BOX, (total, 1))} | changes
    np.savez(folder / name, **{key: array for key, array in arrays.items() if array is not None})
    return folder / name


def annotated_text(folder: Path, name: str = "a.txt", lines=LINES, **options: object) -> Path:
    path = folder / name
    path.write_text(TEXT, encoding="utf-8")
    write(path, lines, pictures=pictures(folder, name=f"{path.stem}.npz", **options))
    return path


@pytest.mark.parametrize("cached", [False, True])
def test_documents_have_their_pictures(tmp_path, cached):
    text = annotated_text(tmp_path)
    tokenizer = train_tokenizer([text], "word", 80)
    assert tokenizer.widths == {"regions": 5} and tokenizer.vocabulary.widths == {"regions": 5}
    assert Tokenizer.load(_saved(tokenizer, tmp_path)).widths == {"regions": 5}
    result = tokenise([text], tokenizer, tmp_path / "cache" if cached else None)
    assert result.media.counts().tolist() == [3, 0, 2]
    shown = result.media.of(np.array([2, 0, 1]), 3)
    assert shown["regions"][:, :, 0].tolist() == [[3, 4, 0], [0, 1, 2], [0, 0, 0]]
    assert shown["boxes"].any(axis=-1).tolist() == [[True, True, False], [True] * 3, [False] * 3]
    assert shown["boxes"][1, 2].tolist() == BOX.tolist()
    assert result.media.of(np.array([0]), 2)["regions"][0, :, 0].tolist() == [0, 1]  # no room for the third


def _saved(tokenizer: Tokenizer, folder: Path) -> Path:
    tokenizer.save(folder / "tokenizer.json")
    return folder / "tokenizer.json"


def test_shards_are_read_as_one_array(tmp_path, monkeypatch):
    monkeypatch.setattr(texts, "PIECE", 45)
    paths = [annotated_text(tmp_path, f"{name}.txt") for name in "ab"]
    tokenizer = train_tokenizer(paths, "word", 80)
    stored = store(paths, tokenizer, tmp_path / "out", processes=1)
    result, whole = open_corpora([stored]), tokenise(paths, tokenizer)
    assert isinstance(result.media.offsets, Joined) and len(stored.shards) > 1
    assert result.media.counts().tolist() == whole.media.counts().tolist() == [3, 0, 2] * 2
    documents = np.arange(6)[::-1]
    for name, array in whole.media.of(documents, 3).items():
        assert np.array_equal(array, result.media.of(documents, 3)[name])


def test_pictures_change_the_hash_and_text_without_pictures_is_unaffected(tmp_path):
    text = annotated_text(tmp_path)
    before = content_hash([text])
    pictures(tmp_path, boxes=np.tile(BOX / 2, (6, 1)))
    assert content_hash([text]) != before
    sidecar_of(text).unlink()
    plain = train_tokenizer([text], "word", 80)
    assert plain.widths == {} and "widths" not in plain.to_json() and tokenise([text], plain).media is None


def test_tokenizer_without_pictures_ignores_them(tmp_path):
    text = annotated_text(tmp_path)
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
def test_wrong_file_of_pictures_raises_an_error(tmp_path, changes, words):
    with pytest.raises(CorpusError, match=words) as error:
        annotated_text(tmp_path, **changes)
    assert "a.npz" in str(error.value) and not sidecar_of(tmp_path / "a.txt").exists()


@pytest.mark.parametrize(
    ("lines", "words"),
    [
        ([(2, {"picture": "dog"}), (4, {"picture": "hog"})], "line 3: the picture 'hog' is unknown: .*a.npz has no"),
        ([(2, {"picture": 7})], 'line 2: "picture" is the name of a picture, not 7'),
    ],
)
def test_wrong_line_raises_an_error_when_it_is_written(tmp_path, lines, words):
    with pytest.raises(CorpusError, match=words) as error:
        annotated_text(tmp_path, lines=lines)
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
def test_picture_in_the_wrong_place_raises_an_error(tmp_path, lines, words):
    text = annotated_text(tmp_path, lines=lines)
    with pytest.raises(CorpusError, match=words) as error:
        tokenise([text], train_tokenizer([text], "word", 80))
    assert "a.txt.layers.jsonl" in str(error.value)


def test_damaged_or_missing_file_raises_an_error_with_the_line_that_names_it(tmp_path):
    text = annotated_text(tmp_path)
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


def test_different_numbers_of_features_raise_an_error(tmp_path):
    one, other = annotated_text(tmp_path), annotated_text(tmp_path, "b.txt", features=7)
    with pytest.raises(CorpusError, match='b.npz has 7 features, and "regions" of .*a.npz has 5'):
        widths_of([one, other])
    with pytest.raises(CorpusError, match="b.npz has 7 features, and the tokenizer knows 5"):
        tokenise([other], train_tokenizer([one], "word", 80))


def sampled(text: Corpus, steps: int, length: int = 30, room: int = 4):
    """Yields for each row of ``steps`` the documents of the picture, those of captions A and B, both captions, and the
    label."""
    sampler = sip.Captions(text, VOCABULARY, length, room)
    caption_documents = {}
    for document, (begin, end) in enumerate(zip(text.documents, text.documents[1:], strict=False)):
        for one in range(begin, end):
            words = tuple(text.ids[text.sentences[one] : text.sentences[one + 1]].tolist())
            caption_documents.setdefault(words, set()).add(document)
    for step in range(steps):
        rows, _ = sampler(step, 16, 1)
        shown = text.media.of(np.arange(len(text.documents) - 1), room)["regions"]
        for row in range(16):
            tokens = rows["tokens"][row]
            marks = np.flatnonzero(tokens == VOCABULARY.sep)
            assert tokens[0] == VOCABULARY.cls and len(marks) == 2 and not tokens[marks[1] + 1 :].any()
            assert rows["segments"][row].tolist() == [int(marks[0] < i <= marks[1]) for i in range(length)]
            first, second = tuple(tokens[1 : marks[0]].tolist()), tuple(tokens[marks[0] + 1 : marks[1]].tolist())
            pictured = {n for n, one in enumerate(shown) if np.array_equal(one, rows["regions"][row])}
            yield pictured, caption_documents[first], caption_documents[second], first, second, rows["next"][row]


def test_captions_are_of_the_picture_or_random_and_each_is_first_once():
    text, related, seen = captions(), 0, []
    for pictured, first, second, a, _, label in sampled(text, 23):
        assert pictured & first
        assert bool(pictured & second) or not label
        related += label
        seen.append(a)
    assert len(seen) == 368 and 368 * 0.4 < related < 368 * 0.6
    every = [tuple(text.ids[b:e].tolist()) for b, e in zip(text.sentences, text.sentences[1:], strict=False)]
    assert sorted(seen[:360]) == sorted(every)


def test_long_captions_are_truncated_to_fit_the_row():
    rows, _ = sip.Captions(captions(), VOCABULARY, 10, 4)(0, 64, 1)
    marks = np.array([np.flatnonzero(row == VOCABULARY.sep) for row in rows["tokens"]])
    assert (marks[:, 1] == 9).mean() > 0.9 and (marks[:, 0] >= 4).all()  # captions have 4 or more tokens; 7 fit


def test_corpus_without_pictures_raises_an_error():
    with pytest.raises(CorpusUnfit, match="--pictures FILE"):
        sip.Captions(corpus(), VOCABULARY, 24, 4)
    from dataclasses import replace

    single = replace(captions(), documents=np.arange(0, 361), openings=None)
    alone = replace(single, media=replace(captions().media, offsets=np.pad([0, 1], (0, 359), mode="edge")))
    with pytest.raises(CorpusUnfit, match="has 0 documents with a picture and two captions"):
        sip.Captions(alone, VOCABULARY, 24, 4)
