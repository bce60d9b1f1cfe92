"""Pre-trainings of a run that train on another machine (`bench.engine.portable.carry`)."""

import shutil
from pathlib import Path

from ptmbench.bench.console import say
from ptmbench.bench.engine.portable import driver
from ptmbench.bench.errors import CELLS_FAILED, OK, Carried, Diverged
from ptmbench.bench.runs.execute import alone, write_plan
from ptmbench.bench.runs.plan import Plan
from ptmbench.bench.runs.results import intact
from ptmbench.bench.runs.trainings import Pretraining, TokenizerTraining
from ptmbench.bench.runs.work import Job, Worker


def carry(whole: Plan, job: Job, out: Path, folder: Path) -> int:
    """Writes a folder below ``folder`` for each pre-training of ``whole``, and makes checkpoints in the run folder
    ``out`` of those that came back finished. Runs no cells. Returns the exit status.

    A student whose teacher is not there yet, or a second stage before its first, is left for a later call.
    """
    from ptmbench.bench import environment

    environment.prepare()
    waiting, made, later = [], 0, []
    with alone(out):
        write_plan(whole, job, out)
        worker = Worker(out, whole, job)
        for piece in whole.artefacts:
            if isinstance(piece, TokenizerTraining) and not intact(out, piece):
                say(worker.do(piece.key))
        for piece in (one for one in whole.artefacts if isinstance(one, Pretraining)):
            home = folder / f"{piece.model}-{piece.size}-{piece.key[:8]}"
            if intact(out, piece):
                made += 1
            elif not all(intact(out, whole.by_key[key]) for key in piece.needs):
                later.append(piece.name)
            else:
                try:
                    worker.train(piece, piece.place(out), carry=home)
                    made += 1
                    say(f"{piece.title}: done.")
                except Carried as carried:
                    waiting.append(piece.name)
                    say(str(carried))
                except Diverged as error:
                    say(f"{piece.title} diverged. {error}")
                    return CELLS_FAILED
    if waiting:
        shutil.copy(driver.__file__, folder / "driver.py")
        say(f"{len(waiting)} pre-trainings wait in {folder}: `python {folder}/driver.py` trains them all.")
    if later:
        say(f"{', '.join(later)}: what they need is not made yet. Give this command again when it is.")
    if not waiting and not later:
        say(f"All {made} pre-trainings are made. Leave out --carry to run the cells.")
    return OK
