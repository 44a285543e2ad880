"""``python -m pggnn``."""

import sys

from pggnn.cli import main

sys.exit(main())
