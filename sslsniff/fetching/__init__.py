"""What does a probe fetch? Steps that read registers and memory, and the values they become."""
