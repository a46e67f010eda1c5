#!/usr/bin/env python3
"""Draws docs/cost-by-clients.svg and docs/cost-by-threads.svg from target/versus.jsonl.

`cargo bench -p tollgate-benches --bench versus` writes the figures; nothing else is needed.
"""
import json
import math
import pathlib
import re

ROOT = pathlib.Path(__file__).resolve().parent.parent
COLOURS = {
    "tollgate, coarse clock": "#0b6e4f",
    "tollgate, precise clock": "#52b788",
    "tollgate, time given": "#95d5b2",
    "governor": "#c1121f",
    "rate-net": "#e09f3e",
    "mutex-twin": "#5e548e",
    "one-mutex": "#8d99ae",
}
WIDTH, HEIGHT, LEFT, RIGHT, TOP, BOTTOM = 760, 420, 70, 200, 50, 50


def series(lines, pattern):
    """The median of each contender by the number in the scenario's name."""
    found = {}
    for line in lines:
        match = re.fullmatch(pattern, line["scenario"])
        if not match:
            continue
        x, ours = int(match[1]), match[2]
        name = {"given": "tollgate, time given"}.get(ours, f"tollgate, {ours} clock")
        found.setdefault(name, {})[x] = line["ns_ours"][1]
        found.setdefault(line["peer"], {})[x] = line["ns_peer"][1]
    return {name: sorted(points.items()) for name, points in found.items() if name in COLOURS}


def draw(path, title, x_title, x_label, found):
    xs = sorted({x for points in found.values() for x, _ in points})
    top = max(y for points in found.values() for _, y in points)
    low, high = 1, math.ceil(math.log10(top) * 2) / 2
    width, height = WIDTH - LEFT - RIGHT, HEIGHT - TOP - BOTTOM
    at_x = lambda x: LEFT + xs.index(x) / max(1, len(xs) - 1) * width
    at_y = lambda y: TOP + (high - math.log10(y)) / (high - low) * height
    out = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{HEIGHT}" '
        f'font-family="sans-serif" font-size="13">',
        f'<rect width="{WIDTH}" height="{HEIGHT}" fill="white"/>',
        f'<text x="{LEFT}" y="24" font-size="16">{title}</text>',
    ]
    ticks = [b * 10**e for e in range(1, 6) for b in (1, 2, 5) if b * 10**e <= 10**high]
    for tick in ticks:
        y = at_y(tick)
        out.append(f'<path d="M{LEFT} {y:.1f}H{LEFT + width}" stroke="#ddd"/>')
        out.append(f'<text x="{LEFT - 8}" y="{y + 4:.1f}" text-anchor="end">{tick}</text>')
    for x in xs:
        label = x_label(x)
        out.append(f'<text x="{at_x(x):.1f}" y="{HEIGHT - 28}" text-anchor="middle">{label}</text>')
    out.append(f'<text x="{LEFT + width / 2}" y="{HEIGHT - 8}" text-anchor="middle">{x_title}</text>')
    # The names stand in the order of the lines' ends, apart from each other.
    ends = sorted(((points[-1][1], name) for name, points in found.items()), reverse=True)
    spot = TOP - 20
    for last, name in ends:
        colour, points = COLOURS[name], found[name]
        line = " ".join(f"{at_x(x):.1f},{at_y(y):.1f}" for x, y in points)
        out.append(f'<polyline points="{line}" fill="none" stroke="{colour}" stroke-width="2"/>')
        spot = max(at_y(last), spot + 18)
        label = f'<text x="{LEFT + width + 12}" y="{spot + 4:.1f}" fill="{colour}">{name}</text>'
        out.append(label)
    out.append("</svg>")
    path.write_text("\n".join(out) + "\n")


def main():
    text = (ROOT / "target/versus.jsonl").read_text()
    lines = [json.loads(line) for line in text.splitlines()]
    draw(
        ROOT / "docs/cost-by-clients.svg",
        "One decision in ns, admitted, String keys, one thread",
        "known clients, visited in a shuffled order",
        lambda x: f"10<tspan dy='-5' font-size='9'>{x}</tspan>",
        series(lines, r"growth-10\^(\d+) (\w+)"),
    )
    draw(
        ROOT / "docs/cost-by-threads.svg",
        "One decision in ns as each thread sees it, one client, admitted, 2 cores",
        "threads",
        str,
        series(lines, r"admitted-1-(\d+)threads (coarse|precise|given)"),
    )


if __name__ == "__main__":
    main()
