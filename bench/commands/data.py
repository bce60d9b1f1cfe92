"""The commands of ``data``: ``make``, ``fetch``, ``ls`` and ``check`` work on data folders; ``corpus``, ``annotate``
and ``tokenise`` prepare text for pre-training."""

import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click

from ptmbench.bench.commands.options import JOBS, SEED, VOCABULARY, CorpusFilesCommand, Existing, Location, Name, Number
from ptmbench.bench.console import say
from ptmbench.bench.errors import ENVIRONMENT, OK, UsageError, printable
from ptmbench.bench.options import KINDS


@click.group()
def data() -> None:
    """Make the embedded data; fetch, list and check official data; make, annotate and tokenise a corpus."""


@data.command()
@click.argument("folder", type=Location("folder"))
@click.option("--seed", type=SEED, default=0, show_default=True, help="Seed of the generated microworld.")
def make(folder: Path, seed: int) -> None:
    """Write the microworld into FOLDER.

    The microworld has a raw corpus, and data for every form of task in the official layouts.
    """
    from ptmbench.tasks.microworld import make as work

    work(folder, seed=seed)
    click.echo(folder)


@data.command("ls")
@click.argument("folder", type=Existing("data folder", folder=True), required=False)
@click.option("--json", "as_json", is_flag=True, help="Print a JSON list: one entry per task and split.")
def ls(folder: Path | None, as_json: bool) -> None:
    """Show which tasks have files in FOLDER.

    Without FOLDER, shows which files each task reads and where they come from.
    """
    rows = list(_expected() if folder is None else _present(folder))
    if as_json:
        from ptmbench.bench.commands.files import dumps

        click.echo(dumps(rows))
        return
    _table(rows)
    if folder is not None:
        states = {task: [row["state"] for row in rows if row["task"] == task] for task in {row["task"] for row in rows}}
        whole = sum(all(state == "found" for state in found) for found in states.values())
        some = sum("found" in found for found in states.values()) - whole
        missing = sum(row["state"] == "missing" for row in rows)
        click.echo(
            f"\n{whole} of {len(states)} tasks complete, {some} in part; {missing} of {len(rows)} splits missing.",
            err=True,
        )


@data.command()
@click.argument("text", type=Existing("corpus file"))
@click.option(
    "--default",
    "defaults",
    multiple=True,
    metavar="LAYER=SYMBOL",
    help="Symbol of all tokens without an annotation: languages=en, or for a *.pairs.tsv file languages=en,de.",
)
@click.option(
    "--lines",
    type=Existing("file of annotations"),
    help='JSON lines that annotate lines of TEXT: {"line": 3, "entities": [[0, 6, "Q64"]]}.',
)
@click.option(
    "--vectors",
    multiple=True,
    metavar="LAYER=FOLDER",
    help="Folder with a vector for each symbol of a layer, entity2id.txt and entity2vec.vec: entities=wikidata.",
)
@click.option(
    "--pictures",
    type=Existing("file of pictures"),
    help='File of the pictures that --lines names, an .npz of their regions: {"line": 3, "picture": "beach"}.',
)
@click.option(
    "--alignments",
    type=Existing("file of word alignments"),
    help="File with the aligned words of each line of a *.pairs.tsv file, in the Pharaoh format: 0-0 1-2.",
)
def annotate(
    text: Path,
    defaults: tuple[str, ...],
    lines: Path | None,
    vectors: tuple[str, ...],
    pictures: Path | None,
    alignments: Path | None,
) -> None:
    """Write the annotations of TEXT, a text for pre-training.

    Annotations are languages, entities and senses of tokens, and pictures of lines. docs/annotations.md shows the
    format.
    """
    from ptmbench.models.text import sidecars

    found, folders = {}, {}
    for given in vectors:
        layer, equals, folder = given.partition("=")
        if not (layer and equals and folder):
            raise UsageError(
                f"--vectors {given} does not name vectors. Write a layer, = and a folder: entities=wikidata."
            )
        folders[layer] = Path(folder)
    for default in defaults:
        layer, equals, symbols = default.partition("=")
        if not (layer and equals and symbols):
            raise UsageError(f"--default {default} is not an annotation. Write a layer, = and a symbol: languages=en.")
        found[layer] = symbols.split(",") if "," in symbols else symbols
    if not found and lines is None and alignments is None:
        raise UsageError("There is nothing to annotate. Give --default LAYER=SYMBOL, --lines or --alignments.")
    rows = sidecars.read_lines(lines) if lines else []
    if alignments is not None:
        known = dict(rows)
        rows = [(number, known.pop(number, {}) | one) for number, one in sidecars.read_alignments(alignments, text)]
        rows += known.items()
    click.echo(sidecars.write(text, rows, default=found, folders=folders, pictures=pictures))


@data.command(cls=CorpusFilesCommand)
@click.argument("folder", type=Existing("data folder", folder=True))
@click.option(
    "--corpus",
    type=Existing("corpus file"),
    multiple=True,
    metavar="FILE...",
    help="Also count the examples that occur in these text files, folders of them, or tokenised corpora.",
)
@click.option("--json", "as_json", is_flag=True, help="Print a JSON list: one entry per task and split.")
def check(folder: Path, corpus: tuple[Path, ...], as_json: bool) -> int:
    """Check every split of every task in FOLDER.

    Prints rows, fingerprint, problems, and the overlap of the report split with training data (docs/overlap.md). Exit
    status 4 if a file is malformed, or if FOLDER has no data of any task. With --json, the entry of a report split has
    the counts of the overlap under "overlap".
    """
    from ptmbench.bench.console import progress
    from ptmbench.bench.runs import counted

    rows = []
    with progress("Reading", unit="splits", brief=True) as bar:
        for row in _read(folder):
            rows.append(row)
            bar.advance(1, task=row["task"])
    ok = {(row["task"], row["split"]): row for row in rows if row["state"] == "ok"}
    with progress("Counting overlaps", unit="tasks", brief=True) as bar:
        for task, counts in counted.of_folder(folder, {name for name, _ in ok}, corpus):
            ok[task.name, task.report]["overlap"] = counts
            bar.advance(1, task=task.name)
    if as_json:
        from ptmbench.bench.commands.files import dumps

        click.echo(dumps(rows))
    else:
        _table(
            [
                {key: row[key] for key in ("task", "split", "state", "rows", "fingerprint")}
                for row in rows
                if row["state"] != "missing"
            ]
        )
        _overlaps([row for row in rows if "overlap" in row])
    broken = [row for row in rows if row["state"] == "malformed"]
    for row in broken:
        click.echo(f"{row['task']} {row['split']}: {row['problem']}", err=True)
    read = sum(row["state"] == "ok" for row in rows)
    missing = len(rows) - read - len(broken)
    names = f"`data ls {shlex.quote(str(folder))}` names them"
    click.echo(f"\n{read} splits read, {len(broken)} malformed, {missing} missing ({names}).", err=True)
    if not read:
        click.echo(f"{folder} holds no task's data: `data ls` shows the expected files.", err=True)
    return ENVIRONMENT if broken or not read else OK


@data.command()
@click.argument("names", metavar="TASK...", nargs=-1, required=True)
@click.option(
    "--data",
    "folder",
    type=Location("folder"),
    required=True,
    help="Data folder; created if it does not exist.",
)
@click.option("--again", is_flag=True, help="Fetch all files again, even if they are already there.")
@click.option(
    "--timeout",
    type=Number(min=1, max=86400),
    default=30.0,
    show_default=True,
    help="Seconds without data before a download is stopped. Over twice this time, the mean rate must be 1024 bytes "
    "per second.",
)
def fetch(names: tuple[str, ...], folder: Path, again: bool, timeout: float) -> None:
    """Fetch the official files of each TASK into a data folder.

    Checks their checksums and unpacks them. An interrupted download resumes when the command is given again. Data that
    need a licence agreement are not fetched; the command says where to apply for them.
    """
    from ptmbench.bench.commands.registry import resolve
    from ptmbench.bench.data.fetch import fetch as work

    tasks = [resolve("tasks", one) for name in names for one in name.split(",") if one]
    for path in dict.fromkeys(work(tasks, folder, again=again, timeout=timeout)):
        click.echo(path)


@data.command()
@click.argument("files", type=Existing("corpus file"), nargs=-1, required=True, metavar="FILE...")
@click.option(
    "--tokenizer", type=click.Choice(KINDS), default="wordpiece", show_default=True, help="Kind of tokenizer."
)
@click.option("--vocabulary", type=VOCABULARY, default=8000, show_default=True, help="Size of the vocabulary.")
@click.option(
    "--like",
    type=Existing("tokenised corpus", folder=True),
    help="Tokenised corpus whose tokenizer is used (default: train a new tokenizer).",
)
@click.option(
    "--deduplicate",
    type=click.Choice(("exact", "near")),
    help="Remove documents that equal an earlier one (exact), or whose word 5-grams have an estimated Jaccard "
    "similarity of 0.8 or more with it (near).",
)
@click.option("--processes", type=JOBS, help="Number of processes (default: one per core).")
@click.option("--out", type=Location("folder"), required=True, help="Folder of the tokenised corpus.")
def tokenise(
    files: tuple[Path, ...],
    tokenizer: str,
    vocabulary: int,
    like: Path | None,
    deduplicate: str | None,
    processes: int | None,
    out: Path,
) -> None:
    """Tokenise FILE... into a folder that --corpus accepts.

    A FILE is text, JSON lines, a gzipped file, or a folder of such files. If the command is interrupted, the same
    command keeps the finished shards. Damaged shards are made again.
    """
    from ptmbench.bench.data import corpora

    made = corpora.tokenise(
        files, out, kind=tokenizer, size=vocabulary, like=like, deduplicate=deduplicate, processes=processes
    )
    read = made["characters"] + made["removed_characters"]
    seconds = made["seconds"]["tokenise"]
    click.echo(
        f"{made['tokens']} tokens in {made['documents']} documents, {made['shards']} shards; "
        f"{read / 1e6:.1f} M characters at {read / 1e6 / seconds:.2f} M/s, "
        f"tokenizer ready after {made['seconds']['train']:.1f} s.",
        err=True,
    )
    if deduplicate:
        click.echo(
            f"Removed: {made['removed_documents']} documents, {made['removed_characters']} characters "
            f"({100 * made['removed_characters'] / max(1, read):.1f} %).",
            err=True,
        )
    click.echo(out)


@data.command()
@click.argument("name", metavar="NAME", type=Name("corpora"))
@click.option("--data", "folder", type=Existing("data folder", folder=True), required=True, help="Data folder.")
@click.option("--out", type=Location("folder"), help="Folder of the corpus (default: corpora/NAME in the data folder).")
@click.option("--json", "as_json", is_flag=True, help="Print the manifest as JSON.")
def corpus(name: str, folder: Path, out: Path | None, as_json: bool) -> None:
    """Make the corpus NAME from the sources in a data folder.

    `ls corpora` lists the recipes. Writes corpus.txt, which `--corpus` reads, heldout.txt for measuring, and
    recipe.json, which says where every part comes from and what was left out. See docs/corpora.md.
    """
    from ptmbench.bench.console import progress
    from ptmbench.bench.data import making, recipes

    recipe = recipes.load(name)
    out = out or folder / "corpora" / name
    with progress("Cleaning", sum(len(source.files) for source in recipe.sources), unit="files", brief=True) as bar:
        made = making.make(name, recipe, folder, out, done=lambda path: bar.advance(1, file=path))
    if as_json:
        from ptmbench.bench.commands.files import dumps

        click.echo(dumps(made))
        return
    for source, steps in made["steps"].items():
        told = ", ".join(f"{amount['words']} {step}" for step, amount in steps.items() if amount["words"])
        click.echo(f"{source}, words: {told}.", err=True)
    for found in made["found_twice"]:
        click.echo(f"Left out: {found['file']}, {100 * found['share']:.1f} % of it in {found['stands_in']}.", err=True)
    click.echo(f"{made['corpus']['documents']} documents, {made['corpus']['words']} words.", err=True)
    click.echo(out / making.CORPUS)


def _expected() -> Iterator[dict[str, Any]]:
    from ptmbench import tasks

    for task in tasks.load_all(say):
        for split, files in task.files.items():
            yield {
                "task": task.name,
                "split": split,
                "folder": " or ".join(task.folders),
                "files": ", ".join(name.replace("|", " or ") for name in files),
                "from": task.source.url,
            }


def _present(folder: Path) -> Iterator[dict[str, Any]]:
    from ptmbench import tasks
    from ptmbench.tasks.task import MissingData

    for task in tasks.load_all(say):
        for split in task.files:
            try:
                paths = task.paths(folder, split)
            except MissingData as error:
                yield {"task": task.name, "split": split, "state": "missing", "where": printable(str(error))}
                continue
            where = ", ".join(printable(str(path.relative_to(folder))) for path in paths)
            yield {"task": task.name, "split": split, "state": "found", "where": where}


def _read(folder: Path) -> Iterator[dict[str, Any]]:
    """Yields a row per task and split, whose state is ok, missing or malformed.

    A file that has changed since it was fetched is malformed.
    """
    from ptmbench import tasks
    from ptmbench.bench.data import sums
    from ptmbench.tasks.task import MissingData

    for task in tasks.load_all(say):
        for split in task.files:
            row = {"task": task.name, "split": split, "state": "ok", "rows": None, "fingerprint": None, "problem": None}
            try:
                sums.check(task, folder, split)
                row["rows"] = len(task.examples(folder, split))
                row["fingerprint"] = task.fingerprint(folder, [split])[:16]
            except MissingData as error:
                row |= {"state": "missing", "problem": printable(str(error))}
            except Exception as error:  # the other splits are read after any error
                row |= {"state": "malformed", "problem": printable(f"{error}" or type(error).__name__)}
            yield row


def _overlaps(rows: list[dict[str, Any]]) -> None:
    """Prints the tables of the overlaps between splits, and with the corpus."""
    if rows:
        click.echo("\nExamples of the report split that the training split has too:")
        _table(
            [
                _flat(row, "train") | {n: row["overlap"]["report"][n] for n in ("repeated", "other_label")}
                for row in rows
            ]
        )
    if rows and "corpus" in rows[0]["overlap"]:
        click.echo("\nExamples of the report split that the corpus has too:")
        _table([_flat(row, "corpus") for row in rows])


def _flat(row: dict[str, Any], part: str) -> dict[str, Any]:
    counts = row["overlap"]
    names = {
        "train": ("same", "same_label", "near", "run", "covered", "overlapping"),
        "corpus": ("checked", "run", "covered"),
    }[part]
    found = counts.get(part) or {}
    share = found.get("overlapping" if part == "train" else "covered")
    percent = None if share is None else f"{100 * share / counts['report']['examples']:.1f}"
    return {
        "task": row["task"],
        "split": row["split"],
        "rows": row["rows"],
        "words": found.get("run_words", counts["run_words"]),
        **{name: found.get(name) for name in names},
        "%": percent,
    }


def _table(rows: list[dict[str, Any]]) -> None:
    """Prints ``rows`` in columns as wide as their widest cell, without trailing spaces."""
    if not rows:
        return
    cells = [list(rows[0]), *([("" if value is None else str(value)) for value in row.values()] for row in rows)]
    widths = [max(len(row[column]) for row in cells) for column in range(len(cells[0]))]
    for row in cells:
        click.echo("  ".join(f"{cell:<{width}}" for cell, width in zip(row, widths, strict=True)).rstrip())
