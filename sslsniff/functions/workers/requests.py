"""What sslsniff asks a worker, in the form of messages; and what is wrong, the other way.

A worker looks into one file. First it gets that, by ``OPEN``. Each request has one answer. Before
it, the worker may ask for files beside the program, by ``OFFERS`` and ``TRUSTED``: sslsniff opens
them, with the checks of ``debug_files``, or says that there is none.
"""

from typing import Any

from sslsniff.analysis.checked_fields import number_in, text
from sslsniff.core.errors import ElfError, FilterError, KernelError, SslsniffError, TargetError
from sslsniff.fetching.fetch import FetchLimits
from sslsniff.functions.conditions.condition_parser import parse_condition
from sslsniff.functions.places.plans import PlanOptions, WantedPlaces

OPEN, PLACES, SERVED = "open", "places", "served"
TYPE_NAME, FRAME, CODE = "type name", "frame", "code"
OFFERS, TRUSTED = "offers", "trusted"

_ERRORS = {each.__name__: each for each in (TargetError, ElfError, KernelError)}


def wanted_message(wanted: WantedPlaces) -> dict[str, Any]:
    """Return what is wanted of a file in the form of a message."""
    condition = wanted.options.condition
    options = wanted.options._replace(condition=None)._asdict()
    return wanted._asdict() | {"options": options, "when": condition and condition.text}


def parse_wanted(message: dict[str, Any]) -> WantedPlaces:
    """Return what sslsniff wants of a file, by a message."""
    when, options = message["when"], message["options"]
    options |= {
        "limits": FetchLimits(*options["limits"]),
        "condition": None if when is None else parse_condition(when),
    }
    return WantedPlaces(
        tuple(message["functions"]),
        tuple(message["static_probes"]),
        tuple((file, line) for file, line in message["lines"]),
        tuple(message["addresses"]),
        PlanOptions(**options),
    )


def error_message(error: SslsniffError) -> dict[str, Any]:
    """Return an error in the form of a message; ``parse_error`` is the inverse."""
    message: dict[str, Any] = {"error": type(error).__name__}
    message |= {"fact": error.fact, "remedy": error.remedy}
    if isinstance(error, FilterError):
        message |= {"expression": error.expression, "position": error.position}
    return message


def parse_error(message: dict[str, Any], condition: str | None) -> SslsniffError:
    """Return the error in a message; raises one of ``INVALID``.

    ``condition``: the text that is wrong in a ``FilterError``.
    """
    kind, fact, remedy = (text(message[each]) for each in ("error", "fact", "remedy"))
    if kind == FilterError.__name__ and condition is not None:
        position = number_in(message["position"], 0, len(condition) + 1)
        return FilterError(fact, remedy, condition, position)
    return _ERRORS[kind](fact, remedy)
