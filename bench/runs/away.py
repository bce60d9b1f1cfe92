"""Moves the pre-trainings of a run to another machine and back (`bench.engine.portable.carry`)."""

import shutil
from pathlib import Path

from ptmbench.bench.console import say
from ptmbench.bench.engine.portable import driver
from ptmbench.bench.errors import CELLS_FAILED, OK, ContinuedElsewhere, UsageError
from ptmbench.bench.runs.execute import locked_folder, write_plan
from ptmbench.bench.runs.job import Job
from ptmbench.bench.runs.plan import Plan
from ptmbench.bench.runs.results import intact
from ptmbench.bench.runs.trainings import Pretraining, TokenizerTraining
from ptmbench.bench.runs.work import Worker


def carry(whole: Plan, job: Job, out: Path, folder: Path) -> int:
    """Writes a folder below ``folder`` for each pre-training of ``whole``, and converts the folders that came back
    finished to checkpoints in the run folder ``out``. Runs no cells. Returns the exit status.

    A pre-training whose teacher or first stage is not finished is left for a later call. A pre-training that fails is
    reported, and the others continue.
    """
    from ptmbench.bench import environment
    from ptmbench.bench.runs.cell import failure

    environment.prepare()
    made, waiting, later, out_of_scope, failed = 0, [], [], [], []
    with locked_folder(out):
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
                except ContinuedElsewhere as carried:
                    waiting.append(piece.name)
                    say(str(carried))
                except UsageError:
                    raise
                except Exception as error:
                    status, reason = failure(error)
                    say(f"{piece.title} {status.replace('_', ' ')}: {reason['text']}")
                    (out_of_scope if status == "not_applicable" else failed).append(piece.name)
    if waiting:
        shutil.copy(driver.__file__, folder / "driver.py")
        say(f"{len(waiting)} pre-trainings wait in {folder}: `python {folder}/driver.py` trains them all.")
    if later:
        say(f"{', '.join(later)}: a pre-training that they need is not finished. Give this command again when it is.")
    if failed:
        say(f"{', '.join(failed)} failed, for the reasons above.")
    if not waiting and not later:
        which = "The other" if failed or out_of_scope else "All"
        say(f"{which} {made} pre-trainings are made. Leave out --carry to run the cells.")
    return CELLS_FAILED if failed else OK
