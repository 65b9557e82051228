"""What a scrape says, without the labels that every sample has."""

from __future__ import annotations

from prometheus_client.parser import text_string_to_metric_families

from pelton.observability.metrics import Metrics

EVERYWHERE = ("model_name", "engine")


def read_samples(metrics: Metrics) -> dict[str, float]:
    """Samples by name and the values of their own labels: "request_success_total stop"."""
    return parse_samples(metrics.render().decode())


def parse_samples(text: str) -> dict[str, float]:
    """The same, of the body of a scrape."""
    samples = [sample for family in text_string_to_metric_families(text) for sample in family.samples]
    assert all(set(EVERYWHERE) <= set(sample.labels) for sample in samples)
    return {
        " ".join(
            [
                sample.name.removeprefix("pelton:"),
                *(value for name, value in sample.labels.items() if name not in EVERYWHERE),
            ]
        ): sample.value
        for sample in samples
    }
