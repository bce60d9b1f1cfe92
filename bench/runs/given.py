"""Checks the base and the teacher of a pre-training, for `bench.runs.pretrain`, and loads the weights of the base."""

from typing import Any

from ptmbench.bench.engine.checkpoint import Checkpoint, CheckpointError
from ptmbench.bench.engine.networks import assign, model_variables
from ptmbench.bench.runs import teachers
from ptmbench.models.text.tokenizers import Tokenizer


def load_base(network: Any, base: Checkpoint, what: str, tokenizer: Tokenizer) -> None:
    """Assigns the weights of ``base`` to ``network``. Raises `CheckpointError` if ``what`` cannot continue from it."""
    _check_tokenizer(base, tokenizer, "Continue with its own.")
    try:
        assign(model_variables(network.loss), base.arrays())
    except CheckpointError as error:
        raise CheckpointError(
            f"{what} cannot continue from {base.folder}. {error} Give a checkpoint of the same model and size."
        ) from error


def _check_tokenizer(given: Checkpoint, tokenizer: Tokenizer, advice: str) -> None:
    """Raises `CheckpointError` if the tokenizer of ``given`` is not ``tokenizer``."""
    theirs = given.about["tokenizer"]
    if theirs["sha256"] != tokenizer.fingerprint:
        raise CheckpointError(
            f"{given.folder} was pre-trained over another tokenizer ({theirs['kind']} of {theirs['size']}) than the "
            f"one that is to be read ({tokenizer.kind} of {tokenizer.vocabulary.size}). {advice}"
        )


def check_teacher(teacher: Checkpoint | None, model: str, size: str, length: int, tokenizer: Tokenizer) -> None:
    """Raises `CheckpointError` if ``teacher`` cannot teach ``model`` at ``size``, or if a student has no teacher."""
    if teacher is None:
        if found := teachers.of(model, size):
            raise CheckpointError(
                f"{model} {size} learns from a teacher, {' '.join(found)}. Give its checkpoint as the teacher."
            )
        return
    if mistake := teachers.mistake(teacher, model, size, length):
        raise CheckpointError(mistake)
    if not teachers.has_own_vocabulary(model):
        _check_tokenizer(teacher, tokenizer, "Teach over its own.")
