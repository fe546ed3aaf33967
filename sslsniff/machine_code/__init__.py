"""What do the instructions of a function do, and where is a probe cheap? x86-64 and aarch64."""
