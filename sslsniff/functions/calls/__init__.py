"""Which calls did a program make? From the hits of its probes."""
