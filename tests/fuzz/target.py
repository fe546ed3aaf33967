"""One fuzzing target: ``python -m tests.fuzz.target NAME [libFuzzer's arguments]``."""

import importlib
import sys

import atheris

# Each is imported only if one of its targets runs: to instrument what it imports takes a second.
_MODULES = {
    "tests.fuzz.decoder_targets": (
        "http1",
        "http2",
        "detect",
        "carried",
        "databases",
        "json_rpc",
        "hpack",
        "content",
    ),
    "tests.fuzz.debug_info_targets": ("scanner", "lines", "debug_info"),
    "tests.fuzz.trace_targets": ("locations", "operands", "conditions"),
    "tests.fuzz.ring_targets": ("damaged_ring",),
}

if __name__ == "__main__":
    name = sys.argv.pop(1)
    [module] = (module for module, names in _MODULES.items() if name in names)
    target = importlib.import_module(module).TARGETS[name]
    atheris.Setup(sys.argv, target)
    atheris.Fuzz()
