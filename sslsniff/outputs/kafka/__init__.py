"""Exchanges or plaintext, sent to Kafka: --kafka."""
