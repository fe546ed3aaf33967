"""What is to be probed in a file? From a plan for each TLS library to offsets in the file."""
