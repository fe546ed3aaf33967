"""Sends metrics, and says what the SDK does not: what was not delivered, and what was rejected."""

from collections.abc import Callable
from typing import Any

from opentelemetry.sdk.metrics.export import MetricExporter, MetricExportResult, MetricsData

from sslsniff.outputs.otlp.otlp_answers import Answers


class MetricDelivery(MetricExporter):
    """Sends metrics by ``exporter``; ``failure`` says why it failed.

    ``rejected`` has what the receiver did not accept. ``report`` gets a line when sending begins to
    fail, when it works again, and when data points were rejected; ``what`` names the metrics and
    the receiver in it. Nothing is sent again: the next metrics have the sums.
    """

    def __init__(
        self,
        what: str,
        exporter: MetricExporter,
        report: Callable[[str], None],
        failure: Callable[[], str],
        rejected: Answers,
    ) -> None:
        super().__init__(exporter._preferred_temporality, exporter._preferred_aggregation)
        self._what = what
        self._exporter = exporter
        self._report = report
        self._failure = failure
        self._rejected = rejected
        self._is_failing = False

    def export(
        self, metrics_data: MetricsData, timeout_millis: float = 10_000, **options: Any
    ) -> MetricExportResult:
        """See ``MetricExporter``."""
        result = self._exporter.export(metrics_data, timeout_millis, **options)
        is_failing = result is not MetricExportResult.SUCCESS
        if is_failing != self._is_failing:
            self._is_failing = is_failing
            now = f"cannot deliver: {self._failure()}" if is_failing else "delivered again"
            self._report(f"{self._what}: {now}")
        rejected = self._rejected.pop()
        if rejected.items:
            self._report(f"{self._what}: {rejected.items:,} rejected: {rejected.reason}")
        return result

    def force_flush(self, timeout_millis: float = 10_000) -> bool:
        """See ``MetricExporter``."""
        return self._exporter.force_flush(timeout_millis)

    def shutdown(self, timeout_millis: float = 30_000, **options: Any) -> None:
        """See ``MetricExporter``."""
        self._exporter.shutdown(timeout_millis, **options)
