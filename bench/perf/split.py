"""Memory of weights and moments on each device, if a training splits them over devices.

    ptmbench perf split [--models bert,gpt --sizes base,large --vocabulary 30522]

The figures follow from the configurations of the models; nothing is trained. A test compares them with real shards.
"""

import click

from ptmbench import models
from ptmbench.bench.engine.tensor_parallel import layouts
from ptmbench.bench.errors import OK, UsageError
from ptmbench.bench.perf.table import Table
from ptmbench.bench.runs.proof import text
from ptmbench.bench.runs.proof.case import shape_of

DEVICES = (1, 2, 4)
COLUMNS = {
    "model": ("model", "{}"),
    "size": ("size", "{}"),
    "split": ("share that is split", "{:.0%}"),
    **{
        f"on_{count}": (f"MiB on each of {count}" if count > 1 else "MiB on one device", "{:,.0f}") for count in DEVICES
    },
}


@click.command("split")
@click.option("--models", "names", default="bert", show_default=True, help="Models, separated by commas.")
@click.option("--sizes", default="base,large", show_default=True, help="Sizes, separated by commas.")
@click.option("--vocabulary", default=30_522, show_default=True, help="Number of pieces.")
@click.option("--length", default=512, show_default=True, help="Tokens of the longest input.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object per line.")
def command(names: str, sizes: str, vocabulary: int, length: int, as_json: bool) -> int:
    """Compute the memory of weights and moments for --strategy tensor.

    Prints the MiB per device with 1, 2 and 4 devices. A place is empty if the model cannot be split over so many.
    """
    table = Table(COLUMNS, as_json)
    for name in names.split(","):
        module = models.load(name)
        for size in sizes.split(","):
            described = module.describe(shape_of(module, size, length), text.vocabulary(vocabulary))
            row: dict[str, object] = {"model": module.CARD.title, "size": size}
            for count in DEVICES:
                try:
                    if count > 1:
                        layouts.check(described, count, name)
                except UsageError:
                    continue
                found = layouts.memory(described, count)
                row[f"on_{count}"] = found.each / 2**20
                if count == 2:
                    row["split"] = found.split / found.one
            table.add(row)
    return OK
