# SPDX-License-Identifier: Apache-2.0 | Copyright 2026 the spira authors
# examples/torch/curves.py: draws the curves of a training as an SVG file, without a library.
COLOURS = ("#bab0ac", "#4e79a7", "#e15759", "#edc948", "#59a14f", "#9467bd", "#17becf", "#9c755f")
WIDTH, HEIGHT, LEFT, TOP, GAP = 430, 300, 55, 30, 80 # of a panel; margins; pixels


def ticks_of(top):
    """About five round numbers from 0 to `top`."""
    step = 10.0 ** -6
    while top / step > 6:
        for factor in (2, 2.5, 2):
            step *= factor
            if top / step <= 6:
                break
    return [i * step for i in range(int(top / step + 1e-6) + 1)]


def text(x, y, words, anchor="middle", colour="#333"):
    return (f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" fill="{colour}" '
            f'font-family="sans-serif" font-size="12">{words}</text>')


def panel(left, title, lines, last_step, top):
    """A plot. lines: (name, colour, width, [(step, value)])."""
    def place(step, value):
        return (left + step / max(last_step, 1) * WIDTH,
                TOP + HEIGHT * (1 - min(value, top) / top))

    parts = [text(left + WIDTH / 2, TOP - 12, title)]
    for value in ticks_of(top):
        y = place(0, value)[1]
        parts.append(f'<path d="M{left} {y:.1f}h{WIDTH}" stroke="#ddd"/>')
        parts.append(text(left - 6, y + 4, f"{value:g}", "end"))
    for value in ticks_of(last_step):
        parts.append(text(place(value, 0)[0], TOP + HEIGHT + 18, f"{value:g}"))
    parts.append(text(left + WIDTH / 2, TOP + HEIGHT + 36, "step"))
    for number, (name, colour, width, points) in enumerate(lines):
        path = " ".join("{:.1f},{:.1f}".format(*place(*point)) for point in points)
        parts.append(f'<polyline points="{path}" fill="none" stroke="{colour}" '
                     f'stroke-width="{width}"/>')
        if name:
            value = f"{name} {points[-1][1]:.3f}"
            parts.append(text(left + WIDTH + 8, TOP + 12 + 18 * number, value, "start", colour))
    return parts


def smoothed(points, count=100):
    """Means of neighbours, at most `count` of them."""
    size = max(1, len(points) // count)
    chunks = [points[i:i + size] for i in range(0, len(points), size)]
    return [(chunk[-1][0], sum(value for _, value in chunk) / len(chunk)) for chunk in chunks]


def draw(path, losses, results, names):
    """Writes the picture: the loss of steps, and the IoU of validations.

    losses    [(step, loss)]
    results   [(step, [IoU of each class, None: not there], mean)]
    names     of the classes
    """
    last = max([step for step, _ in losses] + [step for step, *_ in results] + [1])
    curve = smoothed(losses)
    top = max([value for _, value in curve] + [1e-6])
    left = panel(LEFT, "loss", [("", COLOURS[1], 1.5, curve)] if curve else [], last, top)
    lines = []
    for c, name in enumerate(names):
        points = [(step, ious[c]) for step, ious, _ in results if ious[c] is not None]
        if points:
            lines.append((name, COLOURS[c % len(COLOURS)], 1.2, points))
    if results:
        lines.append(("mean", "#000", 2.5, [(step, mean) for step, _, mean in results]))
    right = panel(LEFT + WIDTH + GAP, "IoU on streets that training does not see", lines, last, 1)
    width, height = LEFT + 2 * WIDTH + GAP + 110, TOP + HEIGHT + 50
    with open(path, "w", encoding="utf-8") as file:
        file.write(f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}">'
                   f'<rect width="{width}" height="{height}" fill="#fff"/>'
                   + "\n".join(left + right) + "</svg>\n")
