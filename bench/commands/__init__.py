"""The commands of the command line: a table of their modules and help texts.

`--help` reads only this table. A module is imported when one of its commands is called, and each command imports what
it runs inside its function.
"""

from typing import NamedTuple


class Command(NamedTuple):
    module: str
    """The module below `bench` that defines a function with the name of the command (``import_`` for ``import``)."""
    help: str


COMMANDS = {
    "run": Command("commands.runs", "Run a suite: pre-train its models, adapt them to its tasks, build the board."),
    "tune": Command(
        "commands.runs", "Tune the pre-trainings or adaptations of a suite, with the same number of trials each."
    ),
    "pretrain": Command("commands.runs", "Pre-train one model on a corpus and save a checkpoint."),
    "evaluate": Command("commands.runs", "Adapt one checkpoint to tasks and score it."),
    "score": Command("commands.files", "Score a file of predictions against an official gold file."),
    "record": Command("commands.files", "Record predictions of an external system, for `board` and `gate`."),
    "predict": Command("commands.files", "Write predictions of adapted checkpoints, for `score` and for test servers."),
    "encode": Command("commands.files", "Write the hidden states of each line of a text file."),
    "diagnose": Command("commands.files", "Show why pre-trained checkpoints score low, from text alone."),
    "import": Command("commands.published", "Convert a published model to a checkpoint (Hugging Face layout)."),
    "export": Command("commands.published", "Write a checkpoint for transformers, TensorFlow, LiteRT or onnxruntime."),
    "board": Command("commands.files", "Build the board from the records of one or more runs."),
    "gate": Command("commands.gate", "Compare a run with a baseline: regression, pass or inconclusive."),
    "accept": Command("commands.gate", "Make a run's records the baseline that gate compares with."),
    "history": Command("commands.gate", "Show how the cells of a baseline changed from commit to commit."),
    "ls": Command("commands.names", "List models, tasks, adaptations, transforms, conditions, suites and more."),
    "info": Command("commands.names", "Show the details of a model, task, suite, checkpoint or other name."),
    "data": Command("commands.data", "Make the embedded data; fetch, list and check official data; tokenise."),
    "perf": Command("perf", "Measure speed on this machine, and compare it with other libraries."),
    "doctor": Command("commands.machine", "Check this machine and the installation."),
}
