"""Writers for the official file formats. Each function takes the rows of one split and writes one layout."""

import hashlib
import io
import json
from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np

from ptmbench.tasks.microworld.grammar import Word, iob1
from ptmbench.tasks.microworld.judgements import Judged
from ptmbench.tasks.microworld.opinions import Review
from ptmbench.tasks.microworld.pairs import Choice
from ptmbench.tasks.microworld.reading import Letter, Paragraph
from ptmbench.tasks.microworld.scenes import Scene
from ptmbench.tasks.shapes import regions

SPLITS = ("train", "dev", "test")


def write(path: Path, lines: Iterable[str], *, bom: bool = False, end: str = "\n") -> None:
    """Writes ``lines`` in UTF-8 with ``end`` after each, "\\n" by default on every system."""
    path.parent.mkdir(parents=True, exist_ok=True)
    body = "".join(line + end for line in lines)
    path.write_bytes((b"\xef\xbb\xbf" if bom else b"") + body.encode())


def _table(path: Path, header: Sequence[str], rows: Iterable[Sequence[object]], *, bom: bool = False) -> None:
    lines = ["\t".join(header)] if header else []
    write(path, lines + ["\t".join(map(str, row)) for row in rows], bom=bom)


def cola(folder: Path, split: str, rows: Sequence[Judged]) -> None:
    """Four columns without a header: source, label, the author's star, sentence. The test file: index and sentence."""
    if split == "test":
        _table(folder / "test.tsv", ("index", "sentence"), [(i, *row.texts) for i, row in enumerate(rows)])
    else:
        _table(
            folder / f"{split}.tsv",
            (),
            [("mw26", row.label, "" if row.label == "1" else "*", *row.texts) for row in rows],
        )


def sst2(folder: Path, split: str, rows: Sequence[Judged]) -> None:
    if split == "test":
        _table(folder / "test.tsv", ("index", "sentence"), [(i, *row.texts) for i, row in enumerate(rows)])
    else:
        _table(folder / f"{split}.tsv", ("sentence", "label"), [(row.texts[0] + " ", row.label) for row in rows])


def mrpc(folder: Path, split: str, rows: Sequence[Judged]) -> None:
    """The files with labels begin with a byte order mark, as the official ones. The test file has an index for the
    label."""
    first = "index" if split == "test" else "Quality"
    table = [(i if split == "test" else row.label, 2 * i, 2 * i + 1, *row.texts) for i, row in enumerate(rows)]
    _table(folder / f"{split}.tsv", (first, "#1 ID", "#2 ID", "#1 String", "#2 String"), table, bom=split != "test")


def stsb(folder: Path, split: str, rows: Sequence[Judged]) -> None:
    header = ("index", "genre", "filename", "year", "old_index", "source1", "source2", "sentence1", "sentence2")
    table = [
        (i, "main-captions", "microworld", "2026", f"{i:04d}", "none", "none", *row.texts) for i, row in enumerate(rows)
    ]
    if split != "test":
        header = (*header, "score")
        table = [(*line, f"{row.label:.3f}") for line, row in zip(table, rows, strict=True)]
    _table(folder / f"{split}.tsv", header, table)


def indexed_pairs(folder: Path, split: str, rows: Sequence[Judged], names: tuple[str, str]) -> None:
    """RTE and QNLI: index, two texts, label."""
    header = ("index", *names) if split == "test" else ("index", *names, "label")
    _table(
        folder / f"{split}.tsv",
        header,
        [(i, *row.texts) if split == "test" else (i, *row.texts, row.label) for i, row in enumerate(rows)],
    )


def mnli(folder: Path, split: str, rows: Sequence[Judged], genre: str) -> None:
    """Twelve columns in train, sixteen in dev (five votes and the gold label), ten in test. The parses are empty."""
    parses = ["sentence1_binary_parse", "sentence2_binary_parse", "sentence1_parse", "sentence2_parse"]
    header = ["index", "promptID", "pairID", "genre", *parses, "sentence1", "sentence2"]
    votes = {"train": 1, "dev": 5, "test": 0}[split.split("_")[0]]
    labels = [f"label{i + 1}" for i in range(votes)] + (["gold_label"] if votes else [])
    table = [
        (i, i, f"{i}{row.label[0]}", genre, "", "", "", "", *row.texts, *[row.label] * len(labels))
        for i, row in enumerate(rows)
    ]
    _table(folder / f"{split}.tsv", [*header, *labels], table)


def conll(path: Path, documents: Iterable[Iterable[Sequence[Word]]]) -> None:
    """Word, part of speech, chunk, IOB1 tag. A DOCSTART line precedes each document, and an empty line follows each
    sentence."""
    lines: list[str] = []
    for sentences in documents:
        lines += ["-DOCSTART- -X- O O", ""]
        for words in sentences:
            lines += [*(" ".join(row) for row in iob1(words)), ""]
    write(path, lines)


def squad(path: Path, paragraphs: Sequence[Paragraph]) -> None:
    """SQuAD 1.1: one article per paragraph. Ids are numbers within the file."""
    data, number = [], 0
    for p in paragraphs:
        questions = []
        for q in p.questions:
            answers = [{"answer_start": q.start, "text": q.answer}]
            questions.append({"answers": answers, "question": q.text, "id": f"{path.stem}-{number:05d}"})
            number += 1
        data.append({"title": p.title.replace(" ", "_"), "paragraphs": [{"context": p.text, "qas": questions}]})
    write(path, [json.dumps({"data": data, "version": "1.1"})], end="")


def copa(path: Path, rows: Sequence[Choice], *, labelled: bool) -> None:
    lines = []
    for i, row in enumerate(rows):
        record = {
            "premise": row.premise,
            "choice1": row.choices[0],
            "choice2": row.choices[1],
            "question": row.question,
        }
        lines.append(json.dumps(record | ({"label": row.label} if labelled else {}) | {"idx": i}))
    write(path, lines)


def letters(folder: Path, rows: Sequence[Letter], *, annotated: bool) -> None:
    """One file per letter: the body with one sentence per line, "@subject" and the subject, then "@ann0" and a second
    subject."""
    for i, row in enumerate(rows):
        lines = [*row.body, "", "@subject", row.subject]
        for k, annotation in enumerate(row.annotations if annotated else ()):
            lines += ["", f"@ann{k}", annotation]
        write(folder / f"letter_{i:05d}.subject", ["\n".join(lines)], end="")


def minimal_pairs(path: Path, rows: Sequence[tuple[str, str]], contrast: str) -> None:
    """BLiMP's layout without the fields that the readers ignore."""
    lines = []
    for i, (good, bad) in enumerate(rows):
        about = {"linguistics_term": contrast, "UID": f"microworld_{contrast}", "pairID": str(i)}
        lines.append(json.dumps({"sentence_good": good, "sentence_bad": bad} | about))
    write(path, lines)


def wikitext(path: Path, articles: Iterable[tuple[str, Sequence[str]]]) -> None:
    """Articles as in WikiText: " = Title = ", then a paragraph. Lines begin and end with a space, and tokens are
    separated."""
    lines = [" "]
    for title, sentences in articles:
        body = " ".join(sentences).replace(",", " ,").replace(".", " .")
        lines += [f" = {title} = ", " ", f" {body} ", " "]
    write(path, lines)


def opinions(path: Path, rows: Sequence[Review]) -> None:
    """BARTABSA's layout of D20: the aspect and the opinion with the same index are a pair, and ``to`` is past the last
    word."""
    entries = []
    for row in rows:
        entry: dict[str, object] = {"raw_words": " ".join(row.words), "words": row.words}
        for kind in ("aspect", "expression"):
            spans = [getattr(one, kind) for one in row.opinions]
            found = [
                {"index": i, "from": first, "to": last + 1, "term": row.words[first : last + 1]}
                for i, (first, last) in enumerate(spans)
            ]
            entry["aspects" if kind == "aspect" else "opinions"] = found
        entry["aspects"] = [
            one | {"polarity": opinion.polarity} for one, opinion in zip(entry["aspects"], row.opinions, strict=True)
        ]
        entries.append(entry)
    write(path, [json.dumps(entries, indent=1)])


def nlvr(path: Path, rows: Iterable[tuple[str, str, Scene, str]]) -> None:
    """NLVR's JSON lines, without ratings by annotators."""
    lines = []
    for identifier, sentence, scene, label in rows:
        record = {"sentence": sentence, "label": label, "identifier": identifier, "directory": "0", "evals": {}}
        lines.append(json.dumps(record | {"structured_rep": scene}, separators=(",", ":")))
    write(path, lines)


def captions(path: Path, rows: Sequence[tuple[Scene, Sequence[str]]]) -> None:
    """Writes a text with a document of captions for each scene, the sidecar file that names their pictures, and the
    file of the pictures. docs/annotations.md describes the formats."""
    write(path, (line for _, texts in rows for line in (*(f"{one} ." for one in texts), "")))
    found = [regions(scene) for scene, _ in rows]
    names = [f"scene-{number}" for number in range(len(rows))]
    arrays = {name: np.concatenate([one[name] for one in found]) for name in ("regions", "boxes") if found}
    content = io.BytesIO()
    np.savez(content, ids=np.array(names, "U"), ends=np.cumsum([len(one["boxes"]) for one in found]), **arrays)
    path.with_suffix(".npz").write_bytes(content.getvalue())
    pictures = {"file": f"{path.stem}.npz", "sha256": hashlib.sha256(content.getvalue()).hexdigest()}
    head = {"format": 1, "text_sha256": hashlib.sha256(path.read_bytes()).hexdigest(), "layers": []}
    lines, number = [json.dumps(head | {"default": {}, "pictures": pictures})], 1
    for name, (_, texts) in zip(names, rows, strict=True):
        lines.append(json.dumps({"line": number, "picture": name}))
        number += len(texts) + 1
    write(path.with_name(f"{path.name}.layers.jsonl"), lines)
