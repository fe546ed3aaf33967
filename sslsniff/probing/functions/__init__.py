"""Functions to trace: where to probe them, and how a probe reads their arguments and results."""
