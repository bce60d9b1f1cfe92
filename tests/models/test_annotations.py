"""Tests of annotation layers: from a sidecar file to a value for each token, and the errors for wrong files."""

import hashlib
import json
from pathlib import Path

import numpy as np
import pytest

from ptmbench.models.text import pieces as texts
from ptmbench.models.text.annotations import symbols_of
from ptmbench.models.text.corpus import CorpusError, content_hash, open_corpora, store, tokenise, train_tokenizer
from ptmbench.models.text.joined import Joined
from ptmbench.models.text.sidecars import sidecar_of, write
from ptmbench.models.text.tokenizers import Tokenizer, TokenizerError

TEXT = "Berlin lies on the Spree.  It is old.\n\tParis lies on the Seine.\n\nDr. Smith saw New York. He left.\n"
KINDS = ("wordpiece", "bpe", "unigram", "word", "character")


def tokenizer(kind: str = "wordpiece") -> Tokenizer:
    return Tokenizer.train(kind, TEXT.split("\n") * 9, 320)


def text_file(folder: Path, text: str = TEXT, name: str = "a.txt") -> Path:
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return path


def covered(corpus, trained: Tokenizer, layer: str) -> list[tuple[str, str]]:
    """Returns the text and the symbol of each span of ``layer``, read back from the values."""
    result: list[tuple[list[int], str]] = []
    for token, value in zip(corpus.ids, corpus.layers[layer], strict=True):
        if value > 0:
            result.append(([int(token)], trained.symbols[layer][value - 1]))
        elif value < 0:
            assert result and trained.symbols[layer][-value - 1] == result[-1][1]
            result[-1][0].append(int(token))
    return [(trained.decode(ids), symbol) for ids, symbol in result]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("cached", [False, True])
def test_spans_annotate_the_tokens_that_they_cover(tmp_path, kind, cached):
    text = text_file(tmp_path)
    lines = [
        (1, {"entities": [[19, 24, "Q1707", "Spree"], [0, 6, "Q64"]]}),
        (2, {"entities": [[1, 6, "Q90", "Paris"]], "languages": "fr"}),
        (4, {"entities": [[4, 9, "Q1"], [14, 22, "Q60", "New York"]]}),
    ]
    write(text, lines, default={"languages": "en"})
    trained = tokenizer(kind).with_symbols(symbols_of([text]))
    corpus = tokenise([text], trained, tmp_path / "cache" if cached else None)
    result = covered(corpus, trained, "entities")
    assert [symbol for _, symbol in result] == ["Q64", "Q1707", "Q90", "Q1", "Q60"]
    spelled = [words.lower().replace(" ", "") for words, _ in result]
    assert spelled == ["berlin", "spree", "paris", "smith", "newyork"] or kind == "unigram"
    assert trained.symbols == {"entities": ("Q1", "Q1707", "Q60", "Q64", "Q90"), "languages": ("en", "fr")}
    languages = np.abs(corpus.layers["languages"])
    bounds = corpus.sentences
    paris = int(corpus.layers["entities"].tolist().index(5))
    french = range(*(int(bounds[i + bounds.searchsorted(paris, side="right") - 1]) for i in (0, 1)))
    assert {n for n in range(corpus.tokens) if languages[n] == 2} == set(french)
    assert set(languages) == {1, 2}


@pytest.mark.parametrize("name", ["a.txt", "a.tokens", "a.jsonl"])
def test_values_do_not_depend_on_layout_or_pieces(tmp_path, monkeypatch, name):
    """Values depend neither on the layout of the text nor on where it is split into pieces."""
    plain = [f"Berlin {n} saw Paris. Paris saw it." for n in range(40)]
    body = "\n\n".join(plain) + "\n"
    if name.endswith(".jsonl"):
        body = "".join(json.dumps({"text": line}) + "\n" for line in plain)
    text = text_file(tmp_path, body, name)
    step = 1 if name.endswith(".jsonl") else 2
    lines = [(1 + step * n, {"entities": [[0, 6, "B"], [line.index("Paris"), line.index("Paris") + 5, "P"]]})
             for n, line in enumerate(plain)]  # fmt: skip
    write(text, lines)
    trained = Tokenizer.train("word", plain, 100).with_symbols(symbols_of([text]))
    whole = tokenise([text], trained)
    monkeypatch.setattr(texts, "PIECE", 100)
    pieces = tokenise([text], trained, tmp_path / "cache")
    values = pieces.layers["entities"].take(np.arange(pieces.tokens))
    assert values.tolist() == whole.layers["entities"].tolist()
    assert [symbol for _, symbol in covered(whole, trained, "entities")] == ["B", "P"] * 40


def test_translations_have_a_language_each(tmp_path):
    text = text_file(tmp_path, "A cat sat.\tEine Katze saß.\n only one\t\nIt ran.\tSie lief.\n", "a.pairs.tsv")
    write(text, [(3, {"languages": [[0, 7, "xx"], [8, 17, "yy"]]})], default={"languages": ["en", "de"]})
    trained = train_tokenizer([text], "word", 60)
    corpus = tokenise([text], trained)
    bounds = corpus.sentences
    symbols = ["", *trained.symbols["languages"]]
    result = [
        {symbols[v] for v in np.abs(corpus.layers["languages"][a:b])} for a, b in zip(bounds, bounds[1:], strict=False)
    ]
    assert result == [{"en"}, {"de"}, {"xx"}, {"yy"}]


def test_repeated_documents_are_removed_with_their_annotations(tmp_path):
    text = text_file(tmp_path, "Berlin lies here.\n\nBerlin lies here.\n\nParis lies there.\n")
    write(text, [(1, {"entities": [[0, 6, "B"]]}), (3, {"entities": [[0, 6, "B"]]}), (5, {"entities": [[0, 5, "P"]]})])
    trained = train_tokenizer([text], "word", 60)
    corpus = tokenise([text], trained, deduplicate="exact")
    assert [symbol for _, symbol in covered(corpus, trained, "entities")] == ["B", "P"]


def test_sidecar_changes_the_fingerprint_but_not_the_tokens(tmp_path):
    text = text_file(tmp_path)
    trained = tokenizer().with_symbols({"entities": ["Q64"]})
    plain, before = tokenise([text], trained), content_hash([text])
    write(text, [(1, {"entities": [[0, 6, "Q64"]]})])
    annotated = tokenise([tmp_path], trained)
    assert content_hash([text]) != before and annotated.fingerprint != plain.fingerprint
    assert annotated.ids.tolist() == plain.ids.tolist() and not plain.layers["entities"].any()
    with pytest.raises(CorpusError, match="Name the text instead"):
        tokenise([sidecar_of(text)], trained)


HEAD = {"format": 1, "layers": ["entities"]}
WRONG = {
    "": "line 1: expected a JSON object",
    "[]": "line 1: expected a JSON object",
    json.dumps({"format": 2}): "line 1: expected .*Write this line first",
    json.dumps(HEAD | {"text_sha256": "0"}): "annotates another text",
    json.dumps(HEAD | {"text_sha256": "SHA", "layers": ["Entities"]}): 'line 1: "layers" is a list of names',
    json.dumps(HEAD | {"text_sha256": "SHA", "default": {"languages": "en"}}): 'line 1: "default" gives a symbol',
    json.dumps(HEAD | {"text_sha256": "SHA", "default": {"entities": ["a", "b"]}}): 'line 1: "default" gives a symbol',
}
LINES = {
    "{": "line 2: expected a JSON object",
    '{"entities": []}': 'line 2: "line" is the number',
    '{"line": 0}': 'line 2: "line" is the number',
    '{"line": 1, "senses": "x"}': "line 2: the layer 'senses' is not among",
    '{"line": 1, "entities": [[0, 6]]}': "line 2: a span of the layer 'entities' is",
    '{"line": 1, "entities": [[6, 0, "Q"]]}': "line 2: a span of the layer",
    '{"line": 1, "entities": [[true, 2, "Q"]]}': "line 2: a span of the layer",
    '{"line": 1, "entities": [[0, 6, "Q"], [4, 9, "R"]]}': "line 2: the spans .* overlap",
    '{"line": 2}\n{"line": 1}': "line 3: line 1 of the text is out of order",
    '{"line": 9}': "line 2: it annotates line 9, but .* ends with line 4",
    '{"line": 1, "entities": [[0, 99, "Q"]]}': r"line 2: the layer 'entities' has the span \[0, 99\], but line 1 of",
    '{"line": 1, "entities": [[0, 6, "Q", "Paris"]]}': "line 2: .* is 'Paris', but line 1 of .* has 'Berlin'",
}


@pytest.mark.parametrize("content", WRONG)
def test_wrong_first_line_raises_an_error(tmp_path, content):
    text = text_file(tmp_path)
    sidecar_of(text).write_text(content.replace("SHA", hashlib.sha256(TEXT.encode()).hexdigest()) + "\n")
    with pytest.raises(CorpusError, match=rf"a\.txt.*{WRONG[content]}"):
        train_tokenizer([text], "wordpiece", 320) and tokenise([text], tokenizer().with_symbols({"entities": ["Q"]}))


@pytest.mark.parametrize("content", LINES)
def test_wrong_line_raises_an_error_with_file_and_line(tmp_path, content):
    text = text_file(tmp_path)
    head = HEAD | {"text_sha256": hashlib.sha256(TEXT.encode()).hexdigest()}
    sidecar_of(text).write_text(json.dumps(head) + "\n" + content + "\n")
    with pytest.raises(CorpusError, match=rf"a\.txt\.layers\.jsonl, {LINES[content]}"):
        train_tokenizer([text], "wordpiece", 320) and tokenise([text], tokenizer().with_symbols({"entities": ["Q"]}))


def test_sidecar_that_is_not_utf8_raises_an_error(tmp_path):
    text = text_file(tmp_path)
    sidecar_of(text).write_bytes(b"\xff\xfe")
    with pytest.raises(CorpusError, match="is not UTF-8"):
        train_tokenizer([text], "wordpiece", 320) and tokenise([text], tokenizer().with_symbols({"entities": ["Q"]}))


def test_tokenizer_keeps_its_symbols_and_ignores_unknown_ones(tmp_path):
    text = text_file(tmp_path)
    plain = train_tokenizer([text], "wordpiece", 320)
    write(text, [(1, {"entities": [[0, 6, "Q64"], [19, 24, "Q1707"]]})])
    trained = train_tokenizer([text], "wordpiece", 320, tmp_path / "cache")
    assert trained.symbols == trained.vocabulary.symbols == {"entities": ("Q1707", "Q64")} and not plain.symbols
    assert trained.fingerprint != plain.fingerprint and trained.spec == plain.spec
    trained.save(tmp_path / "t.json")
    assert Tokenizer.load(tmp_path / "t.json").symbols == trained.symbols
    other = text_file(tmp_path, "Paris saw Berlin.\n", "b.txt")
    write(other, [(1, {"entities": [[0, 5, "Q90"], [10, 16, "Q64"]], "languages": "en"})])
    corpus = tokenise([other], trained)
    assert covered(corpus, trained, "entities") == [("Berlin", "Q64")] and list(corpus.layers) == ["entities"]
    damaged = json.loads((tmp_path / "t.json").read_text()) | {"symbols": {"entities": ["Q1", "Q2"]}}
    (tmp_path / "t.json").write_text(json.dumps(damaged))
    with pytest.raises(TokenizerError, match="does not match its SHA-256"):
        Tokenizer.load(tmp_path / "t.json")


def test_layers_in_many_shards_are_read_as_one_array(tmp_path, monkeypatch):
    text = text_file(tmp_path, "".join(f"Berlin {n} saw Paris.\n\n" for n in range(30)))
    write(text, [(1 + 2 * n, {"entities": [[0, 6, "B"]]}) for n in range(30)])
    trained = train_tokenizer([text], "word", 60)
    monkeypatch.setattr(texts, "PIECE", 50)
    store([text], trained, tmp_path / "whole")
    corpus = open_corpora([store([text], trained, tmp_path / "tokens")])
    assert isinstance(corpus.layers["entities"], Joined)
    values = corpus.layers["entities"].take(np.arange(-5, corpus.tokens + 5))
    whole = tokenise([text], trained).layers["entities"]
    assert values.tolist() == np.concatenate([whole[-5:], whole, whole[:5]]).tolist()


def test_invalid_sidecar_is_not_written(tmp_path):
    text = text_file(tmp_path)
    before = write(text, [(1, {"entities": [[0, 6, "Q64"]]})]).read_bytes()
    with pytest.raises(CorpusError, match="overlap"):
        write(text, [(1, {"entities": [[0, 6, "Q64"], [3, 8, "Q1"]]})])
    assert sidecar_of(text).read_bytes() == before and len(list(tmp_path.iterdir())) == 2
