"""Draws curves over logarithms of both axes: an svg beside the page that shows it."""

import math

COLOURS = ["#0062bd", "#e07b00", "#1b8a3a", "#b3261e", "#7b4fc9", "#00838f", "#8d6e00", "#c2185b"]


def decades(values):
    low, high = math.floor(math.log10(min(values))), math.ceil(math.log10(max(values)))
    return low, max(high, low + 1)


def svg(title, xs, lines):
    """`lines` are (name, one value for each x); the first is drawn dashed, as what others are held against."""
    left, top, wide, high = 60, 24, 520, 330
    (x0, x1), (y0, y1) = decades(xs), decades([value for _, values in lines for value in values])

    def x(value):
        return left + wide * (math.log10(value) - x0) / (x1 - x0)

    def y(value):
        return top + high * (y1 - math.log10(value)) / (y1 - y0)

    parts = [f'<text x="{left}" y="14">{title}</text>']
    for power in range(x0, x1 + 1):
        at = x(10**power)
        parts.append(f'<path d="M{at:.1f} {top}V{top + high}" stroke="#d8dde3"/>')
        parts.append(f'<text x="{at:.1f}" y="{top + high + 16}" text-anchor="middle">{10**power:,}</text>')
    for power in range(y0, y1 + 1):
        at = y(10.0**power)
        parts.append(f'<path d="M{left} {at:.1f}H{left + wide}" stroke="#d8dde3"/>')
        parts.append(f'<text x="{left - 6}" y="{at + 4:.1f}" text-anchor="end">{10.0**power:g}</text>')
    for i, (name, values) in enumerate(lines):
        colour = COLOURS[i % len(COLOURS)]
        dashes = ' stroke-dasharray="5 4"' if i == 0 else ""
        points = " ".join(f"{x(a):.1f},{y(b):.1f}" for a, b in zip(xs, values))
        parts.append(f'<polyline points="{points}" fill="none" stroke="{colour}" stroke-width="1.6"{dashes}/>')
        row = top + 14 * i
        parts.append(f'<path d="M{left + wide + 16} {row}h22" stroke="{colour}" stroke-width="1.6"{dashes}/>')
        parts.append(f'<text x="{left + wide + 44}" y="{row + 4}">{name}</text>')
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {left + wide + 220} {top + high + 30}" font-family="sans-serif" font-size="11" fill="#59626d">'
    return "\n".join([head, *parts, "</svg>"]) + "\n"
