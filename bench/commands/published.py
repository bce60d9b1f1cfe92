"""``import`` and ``export``: checkpoints of others in Hugging Face layout, and ours in theirs."""

from typing import Any

import click

from bench import environment
from bench.commands.options import Existing, Location


@click.command("import")
@click.argument("folder", type=Existing("folder", folder=True))
@click.option("--out", type=Location("folder"), required=True, help="Folder of the checkpoint.")
@click.option("--name", help="What its row on the board is called; the folder's name if not given.")
def import_(**options: Any) -> int:
    """Make a checkpoint of the published model in FOLDER, which every other command takes.

    FOLDER holds config.json, model.safetensors (or its shards, or pytorch_model.bin, whose pickle is not run) and a
    vocabulary. `import` loads nothing from the network.
    """
    environment.prepare()
    from bench.published import import_folder

    return import_folder(**options)


@click.command()
@click.argument("checkpoint", type=Existing("checkpoint"))
@click.option("--out", type=Location("folder"), required=True, help="The folder to write; new or empty.")
def export(**options: Any) -> int:
    """Write CHECKPOINT as a folder that transformers loads: config.json, model.safetensors, tokenizer.json."""
    environment.prepare()
    from bench.published import export_checkpoint

    return export_checkpoint(**options)
