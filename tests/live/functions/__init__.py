"""Live tests of tracing functions."""
