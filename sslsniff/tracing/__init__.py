"""How do bytes become exchanges? Ordered, decoded, paired, timed."""
