"""What is shown on a whole terminal? Lists, details and figures of a capture that runs beside it."""
