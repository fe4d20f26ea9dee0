"""The planner's page: how far its plans are from the truth, and what it adds to them."""

from __future__ import annotations

from colab_helpers import _units, chip_throughput, plan, published_results
from colab_helpers.plan import estimate_accuracy
from course.write.tables import table


def trials_table() -> str:
    """Networks that were predicted and then measured, by device: peak and time, and by how much off."""
    head = (
        "device", "network", "optimizer", "peak", "error", "predicted", "measured", "ratio", "date"
    )  # fmt: skip
    rows = (
        (
            trial.device,
            trial.network,
            trial.optimizer,
            _units.format_mib(trial.measured_peak),
            f"{trial.peak_error_percent:+.2f}%",
            _units.format_duration(
                trial.predicted_seconds * estimate_accuracy.step_over_sum_of_ops()[1]
            ),
            _units.format_duration(trial.measured_seconds),
            f"{trial.time_ratio:.2f}",
            trial.date,
        )
        for trial in estimate_accuracy.trials()
    )
    return table(head, rows)


def peaks_table() -> str:
    """Every predicted peak beside the measured one, the worst first; those within 2% as one row."""
    checks = estimate_accuracy.peak_checks()
    far = [check for check in checks if abs(check.error_percent) > 2]
    rows = [
        (
            check.network,
            check.device,
            f"{check.error_percent:+.1f}%",
            _units.format_mib(check.measured_peak),
            check.caveat or "nothing",
            check.date,
        )
        for check in far
    ]
    near = f"{len(checks) - len(far)} other comparisons"
    rows.append((near, "CPUs and an H100", "within 2%", "", "", ""))
    return table(("network", "device", "error", "peak", "flagged", "date"), rows)


def runs_table() -> str:
    """Published runs beside what the measured rates of their chips allow, operation by operation."""
    head = ("chip", "what", "predicted", "published", "published ÷ predicted", "by")
    rows = (
        (
            run.chip,
            run.what,
            _units.format_duration(run.roofline_seconds),
            _units.format_duration(run.measured),
            f"{run.factor:.2f}",
            f"[{published_results.get(run.row).credit}]({published_results.get(run.row).url})",
        )
        for run in estimate_accuracy.runs()
    )
    return table(head, rows)


def checks_table() -> str:
    """Published measurements that no rate rests on, beside what the rates say of them."""
    head = ("what, on a T4", "predicted", "published", "published ÷ predicted", "by")
    rows = (
        (
            check.row.what,
            _units.format_duration(check.expected.low),
            _units.format_duration(check.measured),
            f"{check.ratio:.2f}",
            f"[{check.row.credit}]({check.row.url})",
        )
        for check in chip_throughput.checks()
    )
    return table(head, rows)


def serving_table() -> str:
    """Published decode speeds that no formula was made with, beside the predictions, the worst first."""
    head = ("chip", "what", "predicted, tokens/s", "published", "published ÷ nearer end", "by")
    rows = (
        (
            check.row.chip_key,
            check.what,
            "{:,.0f} to {:,.0f}".format(*check.predicted),
            f"{check.measured:,.0f}",
            f"{check.error_ratio:.2f}",
            f"[{check.row.credit}]({check.row.url})",
        )
        for check in plan.serving_checks()
    )
    return table(head, rows)


def terms_table() -> str:
    """What a plan adds to a traced step, with who says so."""
    head = ("what", "bytes", "from compute capability 9.0 on", "source")
    rows = (
        (
            overhead.what,
            f"{overhead.bytes:,}",
            f"{overhead.bytes_from_sm90 or overhead.bytes:,}",
            f"{overhead.text} [{overhead.source}]({overhead.url}), {overhead.seen}",
        )
        for overhead in plan.overheads()
    )
    return table(head, rows)
