"""Writes sslsniff/libraries/boringssl/README.md's tables."""

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path

from tests import pages
from tests.boringssl.judging import FIELDS, NEEDED, OTHERS, Damaged, Outcome, Verdict
from tests.boringssl.real_programs import Look

PAGE = Path(__file__).parents[2] / "sslsniff" / "libraries" / "boringssl" / "README.md"
_MARK = "<!-- {}: written by make test-boringssl -->"
_END = "<!-- end of {} -->"
_ADDRESS = re.compile(r"\b0x[0-9a-f]{3,}\b")
_LINES = re.compile(r"(known order: )(\d+:\d+ ?)+")
_MOST_REASONS = 12


def write(outcomes: Sequence[Outcome], damaged: Sequence[Damaged], real: Sequence[Look]) -> None:
    """Write all tables of the page."""
    tables = {
        "releases": _releases(outcomes),
        "functions": _functions(outcomes),
        "fields": _fields(outcomes),
        "refusals": _refusals(outcomes),
        "damaged copies": _copies(damaged),
        "programs": _programs(real),
    }
    for name, lines in tables.items():
        pages.put(PAGE, _MARK.format(name), _END.format(name), lines)


def _releases(outcomes: Sequence[Outcome]) -> list[str]:
    headings = ("library", "sources of", "crate or PyPI package", "found", "found, LTO", "wrong")
    body = []
    for release in dict.fromkeys(each.release for each in outcomes):
        own = [each for each in outcomes if each.release == release]
        wrong = sum(len(each.wrong) for each in own)
        shares = (_share(each for each in own if each.how.lto == lto) for lto in (False, True))
        package = f"{release.package} {release.version}"
        body.append((release.library, release.month, package, *shares, str(wrong)))
    return pages.table(headings, body)


def _share(outcomes: Iterable[Outcome]) -> str:
    found = [each.is_found for each in outcomes]
    return f"{sum(found)} of {len(found)}"


def _functions(outcomes: Sequence[Outcome]) -> list[str]:
    headings = ("function", *(each.value for each in Verdict))
    body = []
    for name in (*NEEDED, *OTHERS):
        counts = Counter(each.verdicts[name].verdict for each in outcomes)
        body.append((f"`{name}`", *(str(counts[each]) for each in Verdict)))
    return pages.table(headings, body)


def _fields(outcomes: Sequence[Outcome]) -> list[str]:
    verdicts = {"right": Verdict.RIGHT, "unknown": Verdict.REFUSED, "wrong": Verdict.WRONG}
    body = []
    for name in FIELDS:
        counts = Counter(each.fields[name].verdict for each in outcomes)
        body.append((name, *(str(counts[each]) for each in verdicts.values())))
    return pages.table(("what", *verdicts), body)


def _refusals(outcomes: Sequence[Outcome]) -> list[str]:
    """Return why reads or writes were refused, most frequent first."""
    builds: dict[str, list[str]] = {}
    for outcome in outcomes:
        reasons = (*(_reason(name, outcome) for name in NEEDED), _unfit(outcome))
        for reason in dict.fromkeys(each for each in reasons if each):
            builds.setdefault(reason, []).append(f"{outcome.release.name} {outcome.how.name}")
    most = sorted(builds.items(), key=lambda each: -len(each[1]))[:_MOST_REASONS]
    body = [(reason, str(len(found)), found[0]) for reason, found in most]
    return pages.table(("reason", "builds", "for example"), body)


def _reason(name: str, outcome: Outcome) -> str:
    judged = outcome.verdicts[name]
    if judged.verdict is Verdict.RIGHT:
        return ""
    is_whole = name not in judged.detail and "order" in judged.detail
    shown = _ADDRESS.sub("0x…", _LINES.sub(r"\1…", judged.detail))
    return shown if is_whole else f"`{name}`: {shown}"


def _unfit(outcome: Outcome) -> str:
    """Return why functions that are found get no probes; "": they get them, or are not found."""
    found = all(outcome.verdicts[name].verdict is Verdict.RIGHT for name in NEEDED)
    return _ADDRESS.sub("0x…", outcome.unfit) if found else ""


def _copies(damaged: Sequence[Damaged]) -> list[str]:
    headings = ("build", "copies", "both still found", "wrong")
    body = [
        (
            f"{each.release.name} {each.how.name}",
            str(each.copies),
            str(each.found),
            str(len(each.wrong)),
        )
        for each in damaged
    ]
    return pages.table(headings, body)


def _programs(real: Sequence[Look]) -> list[str]:
    headings = ("program", "size", "found", "not found", "CPU", "memory")
    body = [
        (
            each.name + (", symbols removed: all as they say" if each.compared else ""),
            f"{each.megabytes:.0f} MB",
            ", ".join(f"`{name}`" for name in each.found) or "nothing",
            _ADDRESS.sub("0x…", _LINES.sub(r"\1…", each.refusal)) or "-",
            f"{each.cpu_s:.1f} s",
            f"{each.memory_mib:.0f} MiB",
        )
        for each in real
    ]
    return pages.table(headings, body)
