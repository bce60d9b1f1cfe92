"""`environment.prepare` in scripts that start processes, with and without a guarded entry point."""

import subprocess
import sys

SCRIPT = """
import multiprocessing
from ptmbench.bench import environment

environment.prepare()
process = multiprocessing.get_context("spawn").Process(target=print)
process.start()
process.join()
print(process.exitcode)
"""


def test_a_script_without_a_guarded_entry_point_gets_a_hint(tmp_path):
    script = tmp_path / "script.py"
    script.write_text(SCRIPT)
    done = subprocess.run([sys.executable, script], capture_output=True, text=True, timeout=300, check=True)
    assert done.stdout == "1\n"
    assert "Put its calls below `if __name__ == '__main__':`." in done.stderr


def test_a_guarded_script_may_start_processes(tmp_path):
    guarded = SCRIPT.replace("\nenvironment", "\nif __name__ == '__main__':\n  environment").replace(
        "\nprocess", "\n  process"
    )
    script = tmp_path / "script.py"
    script.write_text(guarded.replace("\nprint", "\n  print"))
    done = subprocess.run([sys.executable, script], capture_output=True, text=True, timeout=300, check=True)
    assert done.stdout == "\n0\n" and not done.stderr
