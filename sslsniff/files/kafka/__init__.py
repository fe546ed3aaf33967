"""What passes through Kafka: messages with plaintext or exchanges, and reading them back."""
