"""What ran when: a profile's calls over time, each below the one that made it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Any

from matplotlib.ticker import FuncFormatter, MaxNLocator

from colab_helpers.figures.style import COLORS, PALE, Picture, canvas, finish, short_seconds

_DEEPEST = 4  # lanes of calls below calls, for each thread
_NAMED = len(COLORS)
Span = tuple[float, float, str]


def trace(events: Iterable[Any], *, title: str) -> Picture:
    """Draw the `events` of a `torch.profiler.profile`, a lane for each thread and depth.

    The names that take most time have a color each, all others are gray. Work of a GPU has a lane of its
    own. `title` holds the finding.
    """
    known = [
        event
        for event in events
        if event.time_range.end > event.time_range.start and _is_work(event)
    ]
    begin = min(event.time_range.start for event in known)
    end = max(event.time_range.end for event in known)
    spent: Counter[str] = Counter()
    for event in known:
        spent[event.name] += event.self_cpu_time_total + event.self_device_time_total
    named = [name for name, _ in spent.most_common(_NAMED)]
    lanes = _lanes(known)
    with canvas(8.4, 1.3 + 0.34 * len(lanes)) as (figure, axes):
        for i, spans in enumerate(lanes.values()):
            for name in [None, *named]:
                bars = [
                    ((start - begin) / 1e6, (stop - start) / 1e6)
                    for start, stop, what in spans
                    if what == name or (name is None and what not in named)
                ]
                color = PALE if name is None else COLORS[named.index(name)]
                axes.broken_barh(bars, (i - 0.42, 0.84), facecolor=color, edgecolor="white", lw=0.3)
        for name in named:
            axes.broken_barh([], (0, 0), facecolor=COLORS[named.index(name)], label=name[:34])
        axes.set_yticks(range(len(lanes)), ["" if depth else name for name, depth in lanes])
        axes.xaxis.set_major_locator(MaxNLocator(6))
        axes.set(ylim=(len(lanes) - 0.5, -0.5), xlim=(0, (end - begin) / 1e6), xlabel="time")
        axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: short_seconds(value)))
        axes.grid(axis="y", visible=False)
        figure.suptitle(title, x=0.01, ha="left", size=11, weight="bold")
        axes.legend(loc="center left", bbox_to_anchor=(1.0, 0.5), fontsize=8)
        most = ", ".join(f"{name} {spent[name] / 1e3:.1f} ms" for name in named)
        return finish(figure, f"Calls over time. {title}. Most time: {most}.")


def _is_work(event: Any) -> bool:
    """Whether something ran: the GPU's copy of a `record_function` spans the gaps between its kernels."""
    return not (event.device_type.name == "CUDA" and getattr(event, "is_user_annotation", False))


def _lanes(events: Iterable[Any]) -> dict[tuple[str, int], list[Span]]:
    """Spans by lane: for each thread its calls, those below them, and so on; then the GPU."""
    lanes: dict[tuple[str, int], list[Span]] = {}
    open_ends: dict[int, list[float]] = {}
    threads: dict[int, str] = {}
    for event in sorted(events, key=lambda e: (e.time_range.start, -e.time_range.end)):
        span = event.time_range.start, event.time_range.end, event.name
        if event.device_type.name == "CUDA":
            lanes.setdefault(("GPU", 0), []).append(span)
            continue
        name = threads.setdefault(
            event.thread, f"thread {len(threads) + 1}" if threads else "Python"
        )
        above = open_ends.setdefault(event.thread, [])
        while above and above[-1] <= event.time_range.start:
            above.pop()
        if len(above) < _DEEPEST:
            lanes.setdefault((name, len(above)), []).append(span)
        above.append(event.time_range.end)
    order = [*threads.values(), "GPU"]
    return {
        lane: lanes[lane] for lane in sorted(lanes, key=lambda key: (order.index(key[0]), key[1]))
    }
