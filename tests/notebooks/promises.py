"""What each lesson promises about its results, at any size: lesson -> {value: (at least, at most)}."""

INFINITY = float("inf")

PROMISES = {
    "05_tpu_strategy": {
        "weights_gap": (0, 1e-4),  # eight devices and one
        "one_row_gap": (1e-4, INFINITY),  # so that the tolerance tells them apart
        "strategy_gap": (0, 1e-5),
        "loss_wrong": (1.9, INFINITY),  # WRONG really goes wrong
        "shapes_wrong": (2, INFINITY),
        "shapes_right": (1, 1),
    },
}


def broken(lesson: str, values: dict[str, float]) -> list[str]:
    """Name each promise that these values do not keep."""
    return [
        f"{lesson}: {name} is {values.get(name)}, promised from {low} to {high}"
        for name, (low, high) in PROMISES.get(lesson, {}).items()
        if not low <= values.get(name, float("nan")) <= high
    ]
