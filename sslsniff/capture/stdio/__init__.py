"""What do processes of a command say by standard input and output? JSON-RPC, with ``--stdio``."""
