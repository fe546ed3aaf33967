"""What is sent to other machines: queues that never stop a capture, and what goes through them."""
