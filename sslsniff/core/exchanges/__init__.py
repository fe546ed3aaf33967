"""How do the bytes of a connection become exchanges? Decoded, paired, timed, bounded."""
