"""Which exchanges are shown? Filter expressions, and what passes only those to outputs."""
