"""Coverage-guided fuzzing of the decoders with atheris: ``python -m tests.fuzz SECONDS``."""
