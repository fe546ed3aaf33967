"""The rows for the functions of OpenSSL that were found in a file without symbols."""

import re

from sslsniff.libraries.openssl.plan import ROWS_BY_ERRORS
from sslsniff.libraries.supported import WITHOUT_SYMBOLS
from sslsniff.matching.rows import At, Plan
from sslsniff.matching.stripped.evidence import FoundSsl

_CALLS = {"SSL_new": "ossl_ssl_connection_new_int"}
"""Functions that jump to others, if the release has these: only the others are probed then."""
_NUMBER = re.compile(r" \(\d+\)$")


def plan_found_functions(found: FoundSsl) -> Plan:
    """Return the plan with a group for each function that the data of reads and writes passes.

    All are needed, as a call passes only one of them. A function that ends with a jump to another
    has no returns to probe: then its calls are probed.
    """
    groups = []
    for each in found.functions:
        row = ROWS_BY_ERRORS.get(_NUMBER.sub("", each.name))
        if row is not None and each.is_proved:
            row = row._replace(function=each.name)
            groups.append(((row,), (row._replace(at=At.CALLS),)))
    plan = WITHOUT_SYMBOLS[found.library]
    names = {each.name for each in found.functions if each.is_proved}
    outer = {name for name, inner in _CALLS.items() if inner in names}
    optional = tuple(row for row in plan.optional if row.function not in outer)
    return plan._replace(required=tuple(groups), optional=optional)


def missing_functions(found: FoundSsl) -> str:
    """Return which of the functions that are needed are not proved, and why; "": none."""
    return "; ".join(
        f"{each.name} is not proved: {', '.join(each.against)}"
        for each in found.functions
        if _NUMBER.sub("", each.name) in ROWS_BY_ERRORS and not each.is_proved
    )
