"""The terminal screen: it shows a capture that runs in another process."""
