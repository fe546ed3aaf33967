"""A broker of Kafka for tests and benchmarks."""
