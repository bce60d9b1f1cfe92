"""Tests of vectors of symbols: from OpenKE's two files to a table for a corpus, and the errors for wrong files."""

import json
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

from ptmbench.bench.commands.data import data
from ptmbench.bench.data import corpora
from ptmbench.models.text import vectors
from ptmbench.models.text.corpus import (
    MANIFEST,
    CorpusError,
    content_hash,
    open_corpora,
    store,
    stored_in,
    tokenise,
    train_tokenizer,
)
from ptmbench.models.text.sidecars import companions, sidecar_of, write
from ptmbench.models.text.tokenizers import Tokenizer, TokenizerError

TEXT = "Berlin lies on the Spree. It is old.\n\nParis lies on the Seine.\n"
LINES = [(1, {"entities": [[0, 6, "Q64"], [19, 24, "Q1707"]]}), (3, {"entities": [[0, 5, "Q90"]]})]
ROWS = {"Q90": (0.5, -1.0), "Q1": (9.0, 9.0), "Q64": (1.25, 3.0)}
WANTED = [[0.0, 0.0], [1.25, 3.0], [0.5, -1.0]]


def folder(at: Path, rows: dict[str, tuple[float, ...]] = ROWS) -> Path:
    at.mkdir(parents=True, exist_ok=True)
    names = "".join(f"{name}\t{index}\n" for index, name in enumerate(rows))
    (at / "entity2id.txt").write_text(f"{len(rows)}\n{names}")
    (at / "entity2vec.vec").write_text("".join("\t".join(map(str, row)) + "\t\n" for row in rows.values()))
    return at


def annotated(at: Path, name: str = "a.txt", known: Path | None = None) -> Path:
    at.mkdir(parents=True, exist_ok=True)
    text = at / name
    text.write_text(TEXT)
    write(text, LINES, folders={"entities": known or folder(at / "transe")})
    return text


def test_only_symbols_with_a_vector_are_annotated_and_have_their_row(tmp_path):
    text = annotated(tmp_path)
    tokenizer = train_tokenizer([tmp_path], "word", 60, tmp_path / "cache")  # entity2id.txt is not text
    assert tokenizer.symbols == {"entities": ("Q64", "Q90")}
    assert tokenizer.widths == tokenizer.vocabulary.widths == {"entities": 2}
    plain = tokenise([text], tokenizer)
    for corpus in (plain, *(tokenise([text], tokenizer, tmp_path / "cache") for _ in range(2))):
        assert corpus.vectors["entities"].dtype == np.float32 and corpus.vectors["entities"].tolist() == WANTED
    assert sorted(set(plain.layers["entities"])) == [0, 1, 2]  # the Spree has no vector


def test_tokenised_folder_has_the_vectors_and_detects_damage(tmp_path):
    text = annotated(tmp_path)
    tokenizer, out = train_tokenizer([text], "word", 60), tmp_path / "out"
    store([text], tokenizer, out)
    assert open_corpora([stored_in(out)]).vectors["entities"].tolist() == WANTED
    content, manifest = (out / vectors.FILE).read_bytes(), (out / MANIFEST).read_bytes()
    (out / vectors.FILE).write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
    with pytest.raises(CorpusError, match="is damaged: vectors.safetensors"):
        stored_in(out)
    messages = []
    store([text], tokenizer, out, tell=messages.append)
    assert len(messages) == 1 and "vectors.safetensors is damaged: it is made anew" in messages[0]
    assert (out / vectors.FILE).read_bytes() == content and (out / MANIFEST).read_bytes() == manifest
    (out / vectors.FILE).unlink()
    with pytest.raises(CorpusError, match="is damaged: vectors.safetensors"):
        stored_in(out)
    other = annotated(tmp_path / "other", known=folder(tmp_path / "b", ROWS | {"Q90": (7.0, 7.0)}))
    both = [store([text], tokenizer, out), store([other], tokenizer, tmp_path / "out2")]
    assert open_corpora([both[0], both[0]]).vectors
    with pytest.raises(CorpusError, match="have different vectors"):
        open_corpora(both)


def test_fingerprints_depend_on_the_vectors(tmp_path):
    text, seen = annotated(tmp_path / "text", known=folder(tmp_path / "transe")), set()
    for rows in (ROWS, ROWS | {"Q64": (1.25, 3.5)}, ROWS | {"Q2": (0.0, 0.0)}):
        folder(tmp_path / "transe", rows)
        seen |= {content_hash([text]), corpora.fingerprint([text]), corpora.fingerprint([text.parent])}
    assert len(seen) == 9
    assert [path.name for path in companions(text)] == ["a.txt.layers.jsonl", "entity2id.txt", "entity2vec.vec"]


def test_tokenizer_saves_widths_only_if_there_are_any(tmp_path):
    tokenizer = train_tokenizer([annotated(tmp_path)], "word", 60)
    plain = tokenizer.with_symbols(tokenizer.symbols)
    assert "widths" not in json.loads(plain.to_json()) and plain.fingerprint != tokenizer.fingerprint
    tokenizer.save(tmp_path / "t.json")
    assert Tokenizer.load(tmp_path / "t.json").widths == {"entities": 2}
    (tmp_path / "t.json").write_text(json.dumps(json.loads(tokenizer.to_json()) | {"widths": {"entities": 3}}))
    with pytest.raises(TokenizerError, match="does not match its SHA-256"):
        Tokenizer.load(tmp_path / "t.json")
    assert not tokenise([tmp_path], plain).vectors


def test_several_texts_must_share_their_vectors(tmp_path):
    one = annotated(tmp_path / "one")
    same, other = (
        annotated(tmp_path / "same"),
        annotated(tmp_path / "other", known=folder(tmp_path / "b", {"Q64": (1,)})),
    )
    tokenizer = train_tokenizer([one, same], "word", 60)
    assert tokenise([one, same], tokenizer).vectors["entities"].shape == (3, 2)
    with pytest.raises(CorpusError, match="Name one folder in all sidecars"):
        train_tokenizer([one, other], "word", 60)
    with pytest.raises(CorpusError, match="width 1, and the tokenizer knows .* width 2"):
        tokenise([other], tokenizer)
    less = annotated(tmp_path / "less", known=folder(tmp_path / "c", {"Q64": (1, 2)}))
    with pytest.raises(CorpusError, match="entity2id.txt has no 'Q90', which the tokenizer knows"):
        tokenise([less], tokenizer)
    none = annotated(tmp_path / "none", known=folder(tmp_path / "d", {"Q5": (1, 2)}))
    with pytest.raises(CorpusError, match="No symbol of the layer 'entities' has a vector"):
        train_tokenizer([none], "word", 60)


NAMES = {
    "many\n": "entity2id.txt, line 1: expected the number of entities, found 'many'",
    "3\nQ90\t0\nQ1\t1\n": "entity2id.txt, line 1: it announces 3 entities, but 2 follow",
    "3\nQ90\t0\nQ1 1\n": "entity2id.txt, line 3: expected a name, a tab and an index",
    "3\nQ90\t0\nQ1\t-1\n": "entity2id.txt, line 3: expected a name, a tab and an index",
    "3\nQ90\t0\nQ90\t1\n": "entity2id.txt, line 3: the name 'Q90' or its index 1 occurs twice",
    "3\nQ90\t0\nQ1\t0\n": "entity2id.txt, line 3: the name 'Q1' or its index 0 occurs twice",
    "3\nQ90\t0\nQ1\t3\n": "entity2id.txt, line 3: the index 3 of 'Q1' is too large",
    None: "There is no .*entity2id.txt. A folder of vectors has",
}
VECTORS = {
    "1\t2\n3\n5\t6\n": "entity2vec.vec, line 2: it has 1 numbers, but line 1 has 2",
    "1\t2\n3\tx\n5\t6\n": "entity2vec.vec, line 2: expected numbers divided by tabs",
    "1\t2\n3\tnan\n5\t6\n": "entity2vec.vec, line 2: a number is not finite",
    "1\t2\n3\t-inf\n5\t6\n": "entity2vec.vec, line 2: a number is not finite",
    "1\t2\n3\t4e38\n5\t6\n": "entity2vec.vec, line 2: a number is not finite",
    "1\t2\n3\t4\n": "entity2vec.vec has 2 lines, but .*entity2id.txt has 3 entities",
    "": "entity2vec.vec, line 1: expected numbers",
    None: "There is no .*entity2vec.vec. A folder of vectors has",
}


@pytest.mark.parametrize("content", NAMES)
def test_wrong_names_raise_an_error_with_file_and_line(tmp_path, content):
    _change(folder(tmp_path) / "entity2id.txt", content)
    with pytest.raises(CorpusError, match=NAMES[content]):
        vectors.table(tmp_path, ["Q90"])


@pytest.mark.parametrize("content", VECTORS)
def test_wrong_vectors_raise_an_error_with_file_and_line(tmp_path, content):
    _change(folder(tmp_path) / "entity2vec.vec", content)
    with pytest.raises(CorpusError, match=VECTORS[content]):
        vectors.table(tmp_path, ["Q90"])


def _change(path: Path, content: str | None) -> None:
    if content is None:
        path.unlink()
    else:
        path.write_text(content)


@pytest.mark.parametrize("given", [{"senses": "transe"}, {"entities": 3}, ["entities"], {"entities": "nowhere"}])
def test_wrong_first_line_raises_an_error(tmp_path, given):
    text = annotated(tmp_path)
    head, rest = sidecar_of(text).read_text().split("\n", 1)
    sidecar_of(text).write_text(json.dumps(json.loads(head) | {"vectors": given}) + "\n" + rest)
    with pytest.raises(CorpusError, match='line 1: "vectors"|There is no .*nowhere/entity2id.txt'):
        train_tokenizer([text], "word", 60)


def test_annotate_command_accepts_vectors(tmp_path):
    text, lines = tmp_path / "a.txt", tmp_path / "lines"
    text.write_text(TEXT)
    lines.write_text("".join(json.dumps({"line": number, **layers}) + "\n" for number, layers in LINES))
    given = [str(text), "--lines", str(lines), "--vectors"]
    done = CliRunner().invoke(data, ["annotate", *given, f"entities={folder(tmp_path / 'kg')}"], standalone_mode=False)
    assert done.exception is None
    assert json.loads(sidecar_of(text).read_text().split("\n")[0])["vectors"] == {"entities": "kg"}
    assert train_tokenizer([text], "word", 60).widths == {"entities": 2}
    for wrong, words in (("entities", "does not name vectors"), (f"entities={tmp_path / 'x'}", "There is no")):
        done = CliRunner().invoke(data, ["annotate", *given, wrong], standalone_mode=False)
        assert words in str(done.exception)
