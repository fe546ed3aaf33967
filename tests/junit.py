"""What tests came to, from a file that ``pytest --junitxml`` wrote."""

from collections.abc import Iterable
from xml.etree import ElementTree

WORKS, FAILED, NOT_RUN, NONE = "works", "fails", "not run", "-"


def read(path: str) -> dict[str, str]:
    """Return the state of each test by its name."""
    states = {}
    for case in ElementTree.parse(path).iter("testcase"):
        failed = case.find("failure") is not None or case.find("error") is not None
        states[case.attrib["name"]] = FAILED if failed else WORKS
    return states


def worst(states: dict[str, str], names: Iterable[str]) -> str:
    """Return what these tests came to together; of no tests, ``NONE``."""
    found = {states.get(each, NOT_RUN) for each in names}
    return next((each for each in (FAILED, NOT_RUN, WORKS) if each in found), NONE)
