"""``import`` and ``export``: networks and word vectors of others, and ours in their layouts."""

from typing import Any

import click

from ptmbench.bench import environment
from ptmbench.bench.commands.options import EXAMPLES, Existing, Location


@click.command("import")
@click.argument("source", metavar="SOURCE", type=Existing("folder or file"))
@click.option("--out", type=Location("folder"), required=True, help="Folder of the checkpoint.")
@click.option("--name", help="Name of the checkpoint's row on the board (default: the name of SOURCE).")
@click.option(
    "--model", help="Model of a file of word vectors (default: word2vec or glove, by the layout of the file)."
)
@click.option("--vocabulary", type=EXAMPLES, metavar="N", help="Read only the first N word vectors of a file.")
def import_(**options: Any) -> int:
    """Make a checkpoint of the published model in SOURCE, which every other command takes.

    SOURCE is a folder with config.json, model.safetensors (or its shards, or pytorch_model.bin, whose pickle is not
    run) and a vocabulary, or a file of word vectors as word2vec (text, binary), GloVe and fastText (.vec) write them,
    which may be gzipped. `import` loads nothing from the network.
    """
    environment.prepare()
    from ptmbench.bench.runs import published

    return published.import_(**options)


@click.command()
@click.argument("checkpoint", type=Existing("checkpoint"))
@click.option(
    "--out",
    type=Location("folder"),
    required=True,
    help="Output folder, new or empty; for word vectors, the output file.",
)
def export(**options: Any) -> int:
    """Write CHECKPOINT as a folder that transformers loads: config.json, model.safetensors, tokenizer.json.

    Word vectors are written as a text in the layout of word2vec's program, which gensim loads.
    """
    environment.prepare()
    from ptmbench.bench.runs.published import export_checkpoint

    return export_checkpoint(**options)
