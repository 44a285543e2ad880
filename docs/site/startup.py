"""Runs first in each notebook when the site is built: output as a reader has it who runs the same in a terminal."""

import os
import subprocess
import warnings

from IPython.core.magic import register_cell_magic

for name in ("FORCE_COLOR", "CLICOLOR", "CLICOLOR_FORCE"):
    os.environ.pop(name, None)
warnings.filterwarnings("ignore", "IProgress not found")


@register_cell_magic
def bash(line: str, cell: str) -> None:
    """``%%bash``, with its output in one piece."""
    done = subprocess.run(["bash", "-e", "-c", cell], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    print(done.stdout, end="")
    done.check_returncode()
