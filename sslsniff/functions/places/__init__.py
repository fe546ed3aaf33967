"""Where to probe a function, what a probe fetches there, and which functions are never probed."""
