"""``make test-boringssl``: finds functions in hundreds of builds; writes the page of BoringSSL.

    python -m tests.boringssl [--again] [RELEASE ...]

RELEASE is a name such as ``boring-sys-5.0.0``; with any, only theirs, and nothing is written. What
an interrupted run built and searched is not done again. With ``--again``, all is searched.
"""

import argparse
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from pathlib import Path

from sslsniff.elf.elf_file import Elf
from sslsniff.matching.object_layout import ObjectLayout
from tests.boringssl import outcomes as kept_outcomes
from tests.boringssl.damage import damaged_copies
from tests.boringssl.judging import (
    NEEDED,
    Damaged,
    Outcome,
    Verdict,
    find,
    judge,
    judge_fields,
    misplaced_probes,
    read_truth,
)
from tests.boringssl.outcomes import kept
from tests.boringssl.page import write
from tests.boringssl.real_programs import look_at_real_programs
from tests.boringssl.variants import BUILDS, EXAMPLES
from tests.workload.boringssl import builds
from tests.workload.boringssl.builds import Build, build, offsets
from tests.workload.boringssl.releases import RELEASES, Release

_CPUS = os.cpu_count() or 1
_DAMAGED_RELEASES = ("quiche-0.6.0", "boring-sys-4.19.0", "grpcio-1.66.1", "aws-lc-sys-0.47.0")
_COPIES = 1000


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.boringssl")
    parser.add_argument("--again", action="store_true")
    parser.add_argument("release", nargs="*")
    arguments = parser.parse_args()
    wanted = arguments.release
    began = time.monotonic()
    builds.remove_outdated()
    kept_outcomes.remove_outdated(even_current=arguments.again)
    releases = [each for each in RELEASES if not wanted or each.name in wanted]
    outcomes = [each for release in releases for each in _matrix(release)]
    damaged = [*_damaged([each for each in releases if each.name in _DAMAGED_RELEASES])]
    real = [] if wanted else look_at_real_programs()
    wrong = [*_wrong(outcomes, damaged), *(each.problem for each in real if each.problem)]
    print(*wrong, sep="\n")
    found = sum(each.is_found for each in outcomes)
    took = f"{time.monotonic() - began:.0f} s, {_cpu_s():.0f} s of CPU time"
    print(f"{found} of {len(outcomes)} builds found, {len(wrong)} wrong, {took}")
    if not wanted:
        write(outcomes, damaged, real)
    return 1 if wrong or not found else 0


def _matrix(release: Release) -> list[Outcome]:
    """Build all programs of a release, then judge what is found in them."""
    began = time.monotonic()
    with ThreadPoolExecutor(_CPUS) as threads:  # the compilers are processes of their own
        list(threads.map(build, [release] * len(BUILDS), BUILDS))
    with ProcessPoolExecutor(_CPUS) as processes:
        outcomes = list(processes.map(_outcome, [release] * len(BUILDS), BUILDS))
    found = sum(each.is_found for each in outcomes)
    took = time.monotonic() - began
    print(f"{release.name}: {found} of {len(outcomes)} found, {took:.0f} s", flush=True)
    return outcomes


def _outcome(release: Release, how: Build) -> Outcome:
    built = build(release, how)

    def look() -> Outcome:
        findings = find(built.stripped)
        is_known = findings.layout != ObjectLayout()
        truth = offsets(release) if is_known else {}
        return Outcome(
            release,
            how,
            judge(findings, read_truth(built.whole)),
            judge_fields(findings.layout, truth),
            *misplaced_probes(built.whole, built.stripped),
        )

    return kept(look, built, release, how)


def _damaged(releases: Sequence[Release]) -> Iterator[Damaged]:
    """Yield what came of the damaged copies of each example."""
    examples = [(release, how) for release in releases for how in EXAMPLES]
    count = -(-_COPIES // max(len(examples), 1))
    with ProcessPoolExecutor(_CPUS) as processes:
        yield from processes.map(
            _damage, *zip(*examples, strict=True) if examples else ((), ()), [count] * len(examples)
        )


def _damage(release: Release, how: Build, count: int) -> Damaged:
    built = build(release, how)

    def look() -> Damaged:
        truth = read_truth(built.whole)
        with Elf(str(built.whole)) as elf:
            near = elf.offset(min(truth[NEEDED[0]]))
        found, wrong = 0, []
        with tempfile.TemporaryDirectory() as folder:
            for copy in damaged_copies(built.stripped, near, count, Path(folder)):
                verdicts = judge(find(copy), truth)
                found += all(verdicts[name].verdict is Verdict.RIGHT for name in NEEDED)
                wrong += [e.detail for e in verdicts.values() if e.verdict is Verdict.WRONG]
        return Damaged(release, how, count, found, tuple(wrong))

    return kept(look, built, release, how, count)


def _cpu_s() -> float:
    """Return the CPU time of this process and all that it waited for."""
    used = (resource.getrusage(each) for each in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(each.ru_utime + each.ru_stime for each in used)


def _wrong(outcomes: Sequence[Outcome], damaged: Sequence[Damaged]) -> Iterator[str]:
    for outcome in outcomes:
        for each in outcome.wrong:
            yield f"{outcome.release.name} {outcome.how.name}: {each}"
    for copies in damaged:
        for detail in copies.wrong:
            yield f"{copies.release.name} {copies.how.name}, damaged: {detail}"


if __name__ == "__main__":
    try:
        sys.exit(main())
    except subprocess.CalledProcessError as error:
        sys.exit(f"cannot build: {error}\n{error.stderr}")
