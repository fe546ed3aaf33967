"""Run a command once for each seed, one after another; write a JSON line about each run.

    run_seeds.py FIRST COUNT COMMAND [ARGUMENT...]

``{}`` among the arguments stands for the seed.
"""

import json
import subprocess
import sys
import time

PATIENCE_S = 60


def main() -> None:
    """Run the seeds from ``FIRST`` on."""
    first, count, *command = sys.argv[1:]
    for seed in range(int(first), int(first) + int(count)):
        began_s = time.monotonic()
        words = [word.replace("{}", str(seed)) for word in command]
        process = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        try:
            output, errors = process.communicate(timeout=PATIENCE_S)
            code: int | None = process.returncode
        except subprocess.TimeoutExpired:
            process.kill()
            output, errors = process.communicate()
            code = None
        took_s = time.monotonic() - began_s
        run = {"seed": seed, "code": code, "output": output, "errors": errors, "took_s": took_s}
        print(json.dumps(run), flush=True)


if __name__ == "__main__":
    main()
