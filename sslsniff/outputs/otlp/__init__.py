"""OpenTelemetry: spans, metrics and logs, sent by OTLP: --otlp."""
