"""Annotation layers: from a sidecar file to values beside the tokens, and what is told of a wrong file."""

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


def made(folder: Path, text: str = TEXT, name: str = "a.txt") -> Path:
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return path


def covered(corpus, cut: Tokenizer, layer: str) -> list[tuple[str, str]]:
    """The text and the symbol of each span of ``layer``, read back from the values."""
    found: list[tuple[list[int], str]] = []
    for token, value in zip(corpus.ids, corpus.layers[layer], strict=True):
        if value > 0:
            found.append(([int(token)], cut.symbols[layer][value - 1]))
        elif value < 0:
            assert found and cut.symbols[layer][-value - 1] == found[-1][1]
            found[-1][0].append(int(token))
    return [(cut.decode(ids), symbol) for ids, symbol in found]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("cached", [False, True])
def test_spans_reach_the_tokens_that_they_cover(tmp_path, kind, cached):
    text = made(tmp_path)
    lines = [
        (1, {"entities": [[19, 24, "Q1707", "Spree"], [0, 6, "Q64"]]}),
        (2, {"entities": [[1, 6, "Q90", "Paris"]], "languages": "fr"}),
        (4, {"entities": [[4, 9, "Q1"], [14, 22, "Q60", "New York"]]}),
    ]
    write(text, lines, default={"languages": "en"})
    cut = tokenizer(kind).with_symbols(symbols_of([text]))
    corpus = tokenise([text], cut, tmp_path / "cache" if cached else None)
    found = covered(corpus, cut, "entities")
    assert [symbol for _, symbol in found] == ["Q64", "Q1707", "Q90", "Q1", "Q60"]
    spelled = [words.lower().replace(" ", "") for words, _ in found]
    assert spelled == ["berlin", "spree", "paris", "smith", "newyork"] or kind == "unigram"
    assert cut.symbols == {"entities": ("Q1", "Q1707", "Q60", "Q64", "Q90"), "languages": ("en", "fr")}
    languages = np.abs(corpus.layers["languages"])
    bounds = corpus.sentences
    paris = int(corpus.layers["entities"].tolist().index(5))
    french = range(*(int(bounds[i + bounds.searchsorted(paris, side="right") - 1]) for i in (0, 1)))
    assert {n for n in range(corpus.tokens) if languages[n] == 2} == set(french)
    assert set(languages) == {1, 2}


@pytest.mark.parametrize("name", ["a.txt", "a.tokens", "a.jsonl"])
def test_layouts_and_parts_of_a_text_agree(tmp_path, monkeypatch, name):
    """Values do not depend on where the text is cut into pieces, nor on the layout that it has."""
    plain = [f"Berlin {n} saw Paris. Paris saw it." for n in range(40)]
    body = "\n\n".join(plain) + "\n"
    if name.endswith(".jsonl"):
        body = "".join(json.dumps({"text": line}) + "\n" for line in plain)
    text = made(tmp_path, body, name)
    step = 1 if name.endswith(".jsonl") else 2
    lines = [(1 + step * n, {"entities": [[0, 6, "B"], [line.index("Paris"), line.index("Paris") + 5, "P"]]})
             for n, line in enumerate(plain)]  # fmt: skip
    write(text, lines)
    cut = Tokenizer.train("word", plain, 100).with_symbols(symbols_of([text]))
    whole = tokenise([text], cut)
    monkeypatch.setattr(texts, "PIECE", 100)
    pieces = tokenise([text], cut, tmp_path / "cache")
    values = pieces.layers["entities"].take(np.arange(pieces.tokens))
    assert values.tolist() == whole.layers["entities"].tolist()
    assert [symbol for _, symbol in covered(whole, cut, "entities")] == ["B", "P"] * 40


def test_translations_have_a_language_each(tmp_path):
    text = made(tmp_path, "A cat sat.\tEine Katze saß.\n only one\t\nIt ran.\tSie lief.\n", "a.pairs.tsv")
    write(text, [(3, {"languages": [[0, 7, "xx"], [8, 17, "yy"]]})], default={"languages": ["en", "de"]})
    cut = train_tokenizer([text], "word", 60)
    corpus = tokenise([text], cut)
    bounds = corpus.sentences
    symbols = ["", *cut.symbols["languages"]]
    found = [
        {symbols[v] for v in np.abs(corpus.layers["languages"][a:b])} for a, b in zip(bounds, bounds[1:], strict=False)
    ]
    assert found == [{"en"}, {"de"}, {"xx"}, {"yy"}]


def test_repeated_documents_go_with_their_annotation(tmp_path):
    text = made(tmp_path, "Berlin lies here.\n\nBerlin lies here.\n\nParis lies there.\n")
    write(text, [(1, {"entities": [[0, 6, "B"]]}), (3, {"entities": [[0, 6, "B"]]}), (5, {"entities": [[0, 5, "P"]]})])
    cut = train_tokenizer([text], "word", 60)
    corpus = tokenise([text], cut, deduplicate="exact")
    assert [symbol for _, symbol in covered(corpus, cut, "entities")] == ["B", "P"]


def test_a_sidecar_changes_the_fingerprint_and_no_token(tmp_path):
    text = made(tmp_path)
    cut = tokenizer().with_symbols({"entities": ["Q64"]})
    plain, before = tokenise([text], cut), content_hash([text])
    write(text, [(1, {"entities": [[0, 6, "Q64"]]})])
    annotated = tokenise([tmp_path], cut)
    assert content_hash([text]) != before and annotated.fingerprint != plain.fingerprint
    assert annotated.ids.tolist() == plain.ids.tolist() and not plain.layers["entities"].any()
    with pytest.raises(CorpusError, match="Name the text instead"):
        tokenise([sidecar_of(text)], cut)


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
def test_a_wrong_first_line_is_told(tmp_path, content):
    text = made(tmp_path)
    sidecar_of(text).write_text(content.replace("SHA", hashlib.sha256(TEXT.encode()).hexdigest()) + "\n")
    with pytest.raises(CorpusError, match=rf"a\.txt.*{WRONG[content]}|{WRONG[content]}"):
        train_tokenizer([text], "wordpiece", 320) and tokenise([text], tokenizer().with_symbols({"entities": ["Q"]}))


@pytest.mark.parametrize("content", LINES)
def test_a_wrong_line_is_told_with_file_and_line(tmp_path, content):
    text = made(tmp_path)
    head = HEAD | {"text_sha256": hashlib.sha256(TEXT.encode()).hexdigest()}
    sidecar_of(text).write_text(json.dumps(head) + "\n" + content + "\n")
    with pytest.raises(CorpusError, match=rf"a\.txt\.layers\.jsonl, {LINES[content]}"):
        train_tokenizer([text], "wordpiece", 320) and tokenise([text], tokenizer().with_symbols({"entities": ["Q"]}))


def test_a_sidecar_that_is_no_text_is_told(tmp_path):
    text = made(tmp_path)
    sidecar_of(text).write_bytes(b"\xff\xfe")
    with pytest.raises(CorpusError, match="is not UTF-8"):
        train_tokenizer([text], "wordpiece", 320) and tokenise([text], tokenizer().with_symbols({"entities": ["Q"]}))


def test_a_tokenizer_keeps_its_symbols_and_passes_unknown_ones_over(tmp_path):
    text = made(tmp_path)
    plain = train_tokenizer([text], "wordpiece", 320)
    write(text, [(1, {"entities": [[0, 6, "Q64"], [19, 24, "Q1707"]]})])
    cut = train_tokenizer([text], "wordpiece", 320, tmp_path / "cache")
    assert cut.symbols == cut.vocabulary.symbols == {"entities": ("Q1707", "Q64")} and not plain.symbols
    assert cut.fingerprint != plain.fingerprint and cut.spec == plain.spec
    cut.save(tmp_path / "t.json")
    assert Tokenizer.load(tmp_path / "t.json").symbols == cut.symbols
    other = made(tmp_path, "Paris saw Berlin.\n", "b.txt")
    write(other, [(1, {"entities": [[0, 5, "Q90"], [10, 16, "Q64"]], "languages": "en"})])
    corpus = tokenise([other], cut)
    assert covered(corpus, cut, "entities") == [("Berlin", "Q64")] and list(corpus.layers) == ["entities"]
    damaged = json.loads((tmp_path / "t.json").read_text()) | {"symbols": {"entities": ["Q1", "Q2"]}}
    (tmp_path / "t.json").write_text(json.dumps(damaged))
    with pytest.raises(TokenizerError, match="does not match its SHA-256"):
        Tokenizer.load(tmp_path / "t.json")


def test_layers_over_many_shards_are_looked_up_as_one_array(tmp_path, monkeypatch):
    text = made(tmp_path, "".join(f"Berlin {n} saw Paris.\n\n" for n in range(30)))
    write(text, [(1 + 2 * n, {"entities": [[0, 6, "B"]]}) for n in range(30)])
    cut = train_tokenizer([text], "word", 60)
    monkeypatch.setattr(texts, "PIECE", 50)
    store([text], cut, tmp_path / "whole")
    corpus = open_corpora([store([text], cut, tmp_path / "tokens")])
    assert isinstance(corpus.layers["entities"], Joined)
    values = corpus.layers["entities"].take(np.arange(-5, corpus.tokens + 5))
    whole = tokenise([text], cut).layers["entities"]
    assert values.tolist() == np.concatenate([whole[-5:], whole, whole[:5]]).tolist()


def test_a_sidecar_that_would_be_wrong_is_not_written(tmp_path):
    text = made(tmp_path)
    before = write(text, [(1, {"entities": [[0, 6, "Q64"]]})]).read_bytes()
    with pytest.raises(CorpusError, match="overlap"):
        write(text, [(1, {"entities": [[0, 6, "Q64"], [3, 8, "Q1"]]})])
    assert sidecar_of(text).read_bytes() == before and len(list(tmp_path.iterdir())) == 2
