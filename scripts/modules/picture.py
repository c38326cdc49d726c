"""Draws acyclic graphs in layers, as SVG. The same graphs make the same picture, byte by byte."""

from html import escape

CHARACTER, LINE, PADDING = 7.3, 16, 9
GAP, LAYER_GAP, BEND = 22, 46, 8
WIDTH, MARGIN, TITLE = 1040, 20, 40
SWEEPS = 12

STYLE = """
  text { font: 12px ui-monospace, monospace; fill: #1f2328 }
  .title { font: bold 15px sans-serif }
  .note { font: normal 12px sans-serif; fill: #59636e }
  rect { fill: #eef3fa; stroke: #6b87ad }
  .cycle { fill: #fdecea; stroke: #c0392b; stroke-width: 2 }
  path { fill: none; stroke: #8492a6 }
  marker path { fill: #8492a6; stroke: none }
  .page { fill: #ffffff; stroke: none }
"""


class Box:
    """A node, or (without names) the bend of an edge that crosses a layer."""

    def __init__(self, names=()):
        self.names = names
        self.width = max(map(len, names)) * CHARACTER + 2 * PADDING if names else BEND
        self.height = len(names) * LINE + PADDING if names else 0
        self.below, self.above = [], []
        self.x = self.y = 0.0


def layers(graph):
    """Nodes by layer, what depends on nothing first. A layer is no wider than the page."""
    height = {}

    def above(node):
        if node not in height:
            height[node] = 1 + max((above(other) for other in graph if node in graph[other]), default=0)
        return height[node]

    placed, result = set(), []
    while len(placed) < len(graph):
        ready = [node for node in graph if node not in placed and graph[node] <= placed]
        layer, width = [], 0
        for node in sorted(ready, key=lambda node: (-above(node), node)):
            width += Box(node).width + GAP
            if not layer or width <= WIDTH - 2 * MARGIN:
                layer.append(node)
        result.append(sorted(layer))
        placed.update(layer)
    return result


def linked(graph):
    """The boxes of each layer, with a bend wherever an edge crosses one."""
    by_layer = layers(graph)
    boxes = {node: Box(node) for layer in by_layer for node in layer}
    level = {node: at for at, layer in enumerate(by_layer) for node in layer}
    rows = [[boxes[node] for node in layer] for layer in by_layer]
    for node in sorted(graph):
        for other in sorted(graph[node]):
            upper = boxes[node]
            for at in range(level[node] - 1, level[other], -1):
                bend = Box()
                rows[at].append(bend)
                join(upper, bend)
                upper = bend
            join(upper, boxes[other])
    return rows


def join(upper, lower):
    upper.below.append(lower)
    lower.above.append(upper)


def crossings(rows):
    count = 0
    for lower, upper in zip(rows, rows[1:]):
        place = {id(box): at for at, box in enumerate(lower)}
        ends = [place[id(other)] for box in upper for other in sorted(box.below, key=lambda other: place[id(other)])]
        count += sum(ends[i] > ends[j] for i in range(len(ends)) for j in range(i + 1, len(ends)))
    return count


def ordered(rows):
    """Each layer in the order with the fewest crossings that sweeping up and down finds (barycentre method)."""
    best, fewest = [list(row) for row in rows], crossings(rows)
    for sweep in range(SWEEPS):
        upwards = sweep % 2 == 0
        for at in range(1, len(rows)) if upwards else range(len(rows) - 2, -1, -1):
            fixed = {id(box): i for i, box in enumerate(rows[at - 1 if upwards else at + 1])}
            own = {id(box): i for i, box in enumerate(rows[at])}

            def centre(box):
                others = box.below if upwards else box.above
                return sum(fixed[id(other)] for other in others) / len(others) if others else own[id(box)]

            rows[at] = sorted(rows[at], key=lambda box: (centre(box), own[id(box)]))
        if crossings(rows) < fewest:
            best, fewest = [list(row) for row in rows], crossings(rows)
    return best


def place(rows):
    """Puts each box near its neighbours without changing the order of its layer. Gives the width and height."""
    for row in rows:
        spread(row, [0.0] * len(row))
    for sweep in range(SWEEPS):
        for row in rows if sweep % 2 == 0 else reversed(rows):
            spread(row, [wanted(box) for box in row])
    left = min(box.x - box.width / 2 for row in rows for box in row)
    y = 0.0
    for row in reversed(rows):
        height = max(box.height for box in row)
        for box in row:
            box.x -= left
            box.y = y + height / 2
        y += height + LAYER_GAP
    return max(box.x + box.width / 2 for row in rows for box in row), y - LAYER_GAP


def wanted(box):
    neighbours = box.below + box.above
    return sum(other.x for other in neighbours) / len(neighbours) if neighbours else box.x


def spread(row, wishes):
    """The centres nearest to the wishes that keep the boxes of a row apart: boxes that would overlap form a block, which
    is put where its members wish it to be on average."""
    offsets, at = [], 0.0
    for box in row:
        offsets.append(at + box.width / 2)
        at += box.width + (GAP if box.names else BEND)
    blocks = []
    for wish, offset in zip(wishes, offsets):
        blocks.append([wish - offset, 1])
        while len(blocks) > 1 and blocks[-2][0] >= blocks[-1][0]:
            (last, size), (mean, others) = blocks.pop(), blocks.pop()
            blocks.append([(last * size + mean * others) / (size + others), size + others])
    starts = [mean for mean, size in blocks for _ in range(size)]
    for box, start, offset in zip(row, starts, offsets):
        box.x = start + offset


def edge(box, x, y):
    """The line from a box through its bends to the box at its end, for each box below it."""
    for other in box.below:
        points, at = [(box.x, box.y + box.height / 2)], other
        while not at.names:
            points.append((at.x, at.y))
            at = at.below[0]
        points.append((at.x, at.y - at.height / 2))
        points = [(round(px + x), round(py + y)) for px, py in points]
        text = f"M{points[0][0]} {points[0][1]}"
        for (ax, ay), (bx, by) in zip(points, points[1:]):
            middle = (ay + by) // 2
            text += f"C{ax} {middle} {bx} {middle} {bx} {by}"
        yield f'<path d="{text}" marker-end="url(#arrow)"/>'


def panel(title, note, graph, too_many, top):
    """One graph under its title, and its height. `too_many` says which nodes are cycles that are not allowed."""
    rows = ordered(linked(graph))
    width, height = place(rows)
    x, y = max(MARGIN, (WIDTH - width) / 2), top + TITLE
    note = f'<tspan class="note" dx="8">{escape(note)}</tspan>'
    lines = [f'<text class="title" x="{MARGIN}" y="{top + 20}">{escape(title)}{note}</text>']
    boxes = [box for row in rows for box in row if box.names]
    for box in boxes:
        lines.extend(edge(box, x, y))
    for box in boxes:
        left, up = round(box.x - box.width / 2 + x), round(box.y - box.height / 2 + y)
        kind = ' class="cycle"' if too_many(box.names) else ""
        lines.append(f'<rect{kind} x="{left}" y="{up}" width="{round(box.width)}" height="{round(box.height)}" rx="4"/>')
        for at, name in enumerate(box.names):
            lines.append(f'<text x="{left + PADDING}" y="{up + LINE * (at + 1)}">{escape(name)}</text>')
    return lines, round(width + 2 * MARGIN), round(height + TITLE + MARGIN)


def picture(panels, too_many):
    """One picture of several graphs: (title, note, graph) from top to bottom."""
    body, top, width = [], MARGIN, WIDTH
    for title, note, graph in panels:
        lines, wide, high = panel(title, note, graph, too_many, top)
        body += lines
        top, width = top + high, max(width, wide)
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{top}" viewBox="0 0 {width} {top}">\n'
        f"<style>{STYLE}</style>\n"
        '<marker id="arrow" viewBox="0 0 8 8" refX="8" refY="4" markerWidth="8" markerHeight="8" orient="auto">'
        '<path d="M0 0L8 4L0 8z"/></marker>\n'
        f'<rect class="page" width="{width}" height="{top}"/>\n'
    )
    return head + "\n".join(body) + "\n</svg>\n"
