"""The environment of a command that the preloaded library watches."""

import os
import re
from collections.abc import Mapping
from pathlib import Path

from sslsniff.errors import TargetError

LIBRARY = Path(__file__).with_name("libpreload.so")
RING_VARIABLE = "SSLSNIFF_RING"
"""Of ``preload/shared.h``."""
_SEPARATORS = re.compile(r"[ :]")  # ld.so(8), LD_PRELOAD


def preload_environment(ring_path: str, before: Mapping[str, str] = os.environ) -> dict[str, str]:
    """Return ``before`` with what loads the library, which writes to the ring at ``ring_path``.

    Libraries that the user preloads come first, as without sslsniff. Raises ``TargetError``.
    """
    path = str(LIBRARY)
    if _SEPARATORS.search(path):
        raise TargetError(
            f"{path} cannot be preloaded: LD_PRELOAD has no way to write a space or a colon",
            "install sslsniff in another folder",
        )
    libraries = [each for each in (before.get("LD_PRELOAD"), path) if each]
    return {**before, "LD_PRELOAD": ":".join(libraries), RING_VARIABLE: ring_path}
