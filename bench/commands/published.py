"""The commands ``import`` (published models and word vectors) and ``export`` (checkpoints for other programs)."""

from typing import Any

import click

from ptmbench.bench import environment
from ptmbench.bench.commands.options import ABOVE_ZERO, BATCH, EXAMPLES, LENGTH, SEED, Existing, Location
from ptmbench.bench.errors import UsageError
from ptmbench.bench.options import CHOICES, FORMATS
from ptmbench.bench.runs.exports.options import ExportOptions


def _numbers(ctx: click.Context, param: click.Parameter, value: str | None) -> tuple[int, ...]:
    """Callback: converts "1,3,5" to numbers. They begin at 1 and ascend."""
    texts = [text.strip() for text in value.split(",")] if value is not None else []
    numbers = tuple(int(text) for text in texts if text.isdecimal())
    if len(numbers) < len(texts) or 0 in numbers or list(numbers) != sorted(set(numbers)):
        raise UsageError(
            f"{param.opts[0]} takes numbers of layers from 1 in ascending order, such as 1,2,3, not '{value}'."
        )
    return numbers


@click.command("import")
@click.argument("source", metavar="SOURCE", type=Existing("folder or file"))
@click.option("--out", type=Location("folder"), required=True, help="Folder of the checkpoint.")
@click.option("--name", help="Name of the checkpoint's row on the board (default: the name of SOURCE).")
@click.option(
    "--model", help="Model of a file of word vectors (default: word2vec or glove, by the layout of the file)."
)
@click.option("--vocabulary", type=EXAMPLES, metavar="N", help="Read only the first N word vectors of a file.")
@click.option(
    "--layers",
    callback=_numbers,
    metavar="N,...",
    help="Read only these layers, counted from 1: a student that begins with layers of its teacher.",
)
@click.option(
    "--random",
    type=SEED,
    metavar="SEED",
    help="Make the random twin: the same network and tokenizer, with initial weights of this seed.",
)
def import_(**options: Any) -> int:
    """Convert the published model in SOURCE to a checkpoint, which every other command reads.

    SOURCE is a folder with config.json, the weights and a vocabulary. Weights are model.safetensors, its shards, or
    pytorch_model.bin, whose pickle is not run. SOURCE may also be a file of word vectors by word2vec (text or binary),
    GloVe or fastText (.vec), gzipped or not. `import` loads nothing from the network.

    With --random, all weights have initial values instead: a control for what the pre-training is worth.
    """
    environment.prepare()
    from ptmbench.bench.runs import published

    return published.import_(**options)


@click.command()
@click.argument("checkpoint", type=Existing("checkpoint"))
@click.option(
    "--format",
    type=click.Choice(FORMATS),
    default=FORMATS[0],
    show_default=True,
    help="Program that reads the export: transformers, keras-hub (keras_hub), TensorFlow (saved_model), LiteRT or "
    "onnxruntime (onnx).",
)
@click.option(
    "--out",
    type=Location("folder"),
    help="Output folder, new, empty or an older export (default: exports/NAME-FORMAT); for word vectors in the format "
    "transformers, the output file.",
)
@click.option(
    "--quantize", type=click.Choice(CHOICES["quantize"]), help="Store kernels as 8-bit integers (LiteRT and ONNX)."
)
@click.option("--batch", type=BATCH, default=1, show_default=True, help="Batch size of a LiteRT file (others: any).")
@click.option(
    "--length", type=LENGTH, help="Tokens of the longest input (default: the length that the model was adapted with)."
)
@click.option(
    "--texts",
    type=click.IntRange(1, 2),
    metavar="N",
    help="Read N raw texts (1 or 2 for pairs) in place of token ids: the tokenizer is part of the file (SavedModel).",
)
@click.option(
    "--data",
    type=Existing("data folder", folder=True),
    help="Data folder with the examples that the export is checked on (default: random token ids).",
)
@click.option(
    "--tolerance",
    type=ABOVE_ZERO,
    help="Largest difference from the model, as a share of its largest output (default: 1e-4 for float32, 2e-5 for "
    "keras_hub, 0.02 for models that round activations, 0.05 with --quantize).",
)
def export(**options: Any) -> int:
    """Write CHECKPOINT as files that another program reads without ptmbench.

    The format transformers is config.json, model.safetensors and tokenizer.json of a pre-trained model. Word vectors
    are written as text in the layout of word2vec's program, which gensim loads.

    The format keras_hub is a preset of DistilBERT, RoBERTa, ALBERT, GPT-2, BART or T5: `from_preset` of keras-hub's
    backbone and tokenizer load it.

    The other formats take adapted models of classification, regression and tagging, also transformed ones, and
    encoders of pre-trained checkpoints. The written file is run and compared with the model before it is kept.
    """
    environment.prepare()
    asked = ExportOptions(**options)
    if asked.format == FORMATS[0]:
        from ptmbench.bench.runs.published import export_checkpoint

        return export_checkpoint(checkpoint=asked.checkpoint, out=asked.out)
    if asked.format == "keras_hub":
        from ptmbench.bench.runs.published import export_preset

        return export_preset(checkpoint=asked.checkpoint, out=asked.out, tolerance=asked.tolerance)
    from ptmbench.bench.runs.exports.export import export_command

    return export_command(asked)
