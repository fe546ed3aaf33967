"""Functions in code without symbols: what refers to them, where they begin, what they compute."""
