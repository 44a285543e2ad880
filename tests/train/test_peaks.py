import json
import subprocess
import sys

SCRIPT = """
import json, subprocess, sys
import torch
from pggnn.train.peaks import peaks

found = [peaks()["ram"]]
if sys.argv[1:]:
    held = torch.ones(2**27)  # 512 MiB
    found.append(peaks()["ram"])
    found += json.loads(subprocess.check_output([sys.executable, "-c", sys.argv[1]]))
    del held
    found.append(peaks()["ram"])
print(json.dumps(found))
"""


def test_a_peak_is_of_this_process_and_not_of_the_one_that_started_it():
    begin, most, child, end = json.loads(subprocess.check_output([sys.executable, "-c", SCRIPT, SCRIPT]))
    assert 50 < begin < most - 500
    assert child < most - 400
    assert end > most - 50, "a peak stays"
