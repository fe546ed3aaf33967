"""Give each target its share of the seconds, and fail where an input breaks its promise.

Such an input is shown, and left as ``.cache/fuzz/NAME/broken-…``;
``python -m tests.fuzz.target NAME FILE`` runs it again.
What was found worth keeping is there, too, so that the next run continues from it.
"""

import subprocess
import sys
from pathlib import Path

from tests.fuzz.described_program import compile_scanner
from tests.fuzz.seeds import SEEDS

_FOUND = Path(__file__).parents[2] / ".cache" / "fuzz"


def main(seconds: int) -> int:
    """Fuzz one target after the other; return how many failed."""
    failed = 0
    compile_scanner()  # its seconds are not of the target's share: the compiler has it cached then
    for name, seeds in SEEDS.items():
        folder = _FOUND / name
        folder.mkdir(parents=True, exist_ok=True)
        for at, seed in enumerate(seeds):
            (folder / f"seed-{at}").write_bytes(seed)
        command = [sys.executable, "-m", "tests.fuzz.target", name, str(folder)]
        options = [
            f"-max_total_time={max(1, seconds // len(SEEDS))}",
            f"-artifact_prefix={folder}/broken-",
            "-max_len=4096",
            "-timeout=10",
            "-rss_limit_mb=1024",
        ]
        done = subprocess.run([*command, *options], capture_output=True, text=True, check=False)
        lines = done.stderr.splitlines()
        progress = [line for line in lines if line.startswith("#") and "cov:" in line]
        print(f"{name}: {'failed' if done.returncode else 'ok'}  {' '.join(progress[-1:])}")
        if done.returncode:
            failed += 1
            said = [line for line in lines if not line.startswith(("#", "INFO:"))]
            print(done.stdout, *said, sep="\n")
            for broken in folder.glob("broken-*"):
                print(f"{broken.name}: {broken.read_bytes()!r}")
        sys.stdout.flush()
    return failed


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1])))
