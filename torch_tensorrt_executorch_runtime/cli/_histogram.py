"""A histogram as an SVG picture, without a plotting library."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from html import escape

__all__ = ["histogram"]

_COLORS = ("#76b900", "#3b6fb6", "#c4572b", "#7d5ba6")
_WIDTH, _HEIGHT = 860, 460
_LEFT, _RIGHT, _TOP, _BOTTOM = 60, 20, 92, 48
_BINS = 60
_TICKS = 8
_KEPT = 0.99  # of the values; the slowest ones would squeeze all others into one bar


def histogram(title: str, series: Mapping[str, Sequence[float]]) -> str:
    """Draw how often each latency came up, one coloured outline for each series, with its median.

    Args:
        title: Above the picture.
        series: Names and their microseconds, none of them empty. What is slower than 99 of 100 values of the slowest
            series is counted in the last bar.

    Returns:
        An SVG document.
    """
    low, high = _range(series.values())
    shares = {name: _shares(values, low, high) for name, values in series.items()}
    tallest = max(max(share) for share in shares.values())
    rows = _axis(low, high)
    for row, (name, values) in enumerate(series.items()):
        color = _COLORS[row % len(_COLORS)]
        rows.append(_outline(shares[name], tallest, color))
        median = sorted(values)[math.ceil(len(values) / 2) - 1]
        rows.append(_median_line(_x(median, low, high), color))
        rows.append(_legend(row, f"{name}: median {median:.1f} µs", color))
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {_HEIGHT}" width="{_WIDTH}" '
        f'height="{_HEIGHT}" font-family="sans-serif" font-size="12"><rect width="100%" height="100%" fill="white"/>'
        f'<text x="{_LEFT}" y="24" font-size="15" font-weight="bold">{escape(title)}</text>{"".join(rows)}</svg>\n'
    )


def _range(series: Iterable[Sequence[float]]) -> tuple[float, float]:
    lists = [sorted(values) for values in series]
    low = min(values[0] for values in lists)
    high = max(values[math.ceil(_KEPT * len(values)) - 1] for values in lists)
    return low, high if high > low else low + 1


def _shares(values: Sequence[float], low: float, high: float) -> list[float]:
    counts = [0] * _BINS
    for value in values:
        counts[min(int((value - low) / (high - low) * _BINS), _BINS - 1)] += 1
    return [count / len(values) for count in counts]


def _x(value: float, low: float, high: float) -> float:
    return _LEFT + (min(value, high) - low) / (high - low) * (_WIDTH - _LEFT - _RIGHT)


def _outline(shares: Sequence[float], tallest: float, color: str) -> str:
    floor = _HEIGHT - _BOTTOM
    width = (_WIDTH - _LEFT - _RIGHT) / len(shares)
    points = [f"{_LEFT},{floor}"]
    for index, share in enumerate(shares):
        y = floor - share / tallest * (floor - _TOP)
        points += [f"{_LEFT + index * width:.1f},{y:.1f}", f"{_LEFT + (index + 1) * width:.1f},{y:.1f}"]
    points.append(f"{_WIDTH - _RIGHT},{floor}")
    return f'<polygon points="{" ".join(points)}" fill="{color}" fill-opacity="0.25" stroke="{color}"/>'


def _median_line(x: float, color: str) -> str:
    ends = f'x1="{x:.1f}" y1="{_TOP}" x2="{x:.1f}" y2="{_HEIGHT - _BOTTOM}"'
    return f'<line {ends} stroke="{color}" stroke-dasharray="4 3"/>'


def _legend(row: int, text: str, color: str) -> str:
    x, y = _WIDTH - 330, 12 + row * 18  # above the plot, where no outline is
    return (
        f'<rect x="{x}" y="{y}" width="12" height="12" fill="{color}"/>'
        f'<text x="{x + 18}" y="{y + 11}">{escape(text)}</text>'
    )


def _axis(low: float, high: float) -> list[str]:
    floor = _HEIGHT - _BOTTOM
    rows = [f'<line x1="{_LEFT}" y1="{floor}" x2="{_WIDTH - _RIGHT}" y2="{floor}" stroke="#444"/>']
    step = _round_step((high - low) / _TICKS)
    for index in range(math.ceil(low / step), math.floor(high / step) + 1):
        x = _x(index * step, low, high)
        rows.append(f'<line x1="{x:.1f}" y1="{floor}" x2="{x:.1f}" y2="{floor + 5}" stroke="#444"/>')
        rows.append(f'<text x="{x:.1f}" y="{floor + 19}" text-anchor="middle">{index * step:.6g}</text>')
    middle = (_LEFT + _WIDTH - _RIGHT) / 2
    rows.append(f'<text x="{middle}" y="{_HEIGHT - 8}" text-anchor="middle">µs per call (last bar: and slower)</text>')
    rows.append(f'<text x="16" y="{(_TOP + floor) / 2}" transform="rotate(-90 16 {(_TOP + floor) / 2})">calls</text>')
    return rows


def _round_step(least: float) -> float:
    """Return the smallest of 1, 2, 5 times a power of ten that is not below ``least``."""
    power = 10.0 ** math.floor(math.log10(least))
    return next(factor * power for factor in (1, 2, 5, 10) if factor * power >= least)
