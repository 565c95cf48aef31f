# SPDX-License-Identifier: Apache-2.0
"""Plots as SVG, light and dark: panels side by side, with lines over a logarithmic axis, dots in rows, or bars.

A picture is a list of panels. Colours belong to roles, so that they mean the same in all pictures: `ours`, `hand` (by
hand), `usual` (CUDA as it is usually written), and `peer` and `peer2` for other libraries.
"""

import dataclasses
import html
import math

STYLE = """<style>
.plot{--ground:#ffffff;--edge:#d5dce5;--ink:#1f2937;--muted:#5b6879;--grid:#e5eaf0;--axis:#94a3b8;
--ours:#0072b2;--hand:#c2410c;--usual:#6b7280;--peer:#00795a;--peer2:#a21caf}
@media (prefers-color-scheme:dark){.plot{--ground:#0d1117;--edge:#30363d;--ink:#e6edf3;--muted:#9aa7b4;--grid:#21262d;
--axis:#6e7681;--ours:#58a6ff;--hand:#ff9a5c;--usual:#9ca3af;--peer:#3fb68b;--peer2:#e08ae8}}
.plot text{font-family:system-ui,-apple-system,"Segoe UI",Roboto,"Helvetica Neue",Arial,"DejaVu Sans",sans-serif;
font-size:12px;fill:var(--ink)}
.plot .ground{fill:var(--ground);stroke:var(--edge)}
.plot .title{font-size:16px;font-weight:600}
.plot .heading{font-weight:600}
.plot .muted{font-size:11px;fill:var(--muted)}
.plot .grid{stroke:var(--grid)}
.plot .axis{stroke:var(--axis)}
.plot .one{stroke:var(--axis);stroke-dasharray:4 3}
.plot .ours{color:var(--ours)}
.plot .hand{color:var(--hand)}
.plot .usual{color:var(--usual)}
.plot .peer{color:var(--peer)}
.plot .peer2{color:var(--peer2)}
.plot .step{stroke:currentColor;stroke-width:2;fill:none}
.plot .dashed .step{stroke-dasharray:6 4}
.plot .spread{stroke:currentColor;stroke-width:2;stroke-opacity:.55}
.plot .dot{fill:currentColor;stroke:var(--ground)}
.plot .end{fill:var(--ground);stroke:currentColor;stroke-width:1.5}
.plot .bar{fill:currentColor}
</style>
"""

MARGIN, TOP, HEIGHT, LEGEND_LINE = 22, 84, 250, 19


@dataclasses.dataclass
class Series:
    """Points are (x, y); in rows, (row, value) or (row, value, up to)."""

    name: str
    role: str
    points: list
    is_dashed: bool = False


@dataclasses.dataclass
class Lines:
    """Lines over a logarithmic x axis; y is logarithmic too, or begins at y_range[0]."""

    title: str
    x_label: str
    y_label: str
    series: list
    y_range: tuple = None  # None: logarithmic, around the values
    one: float = None  # a dashed line at this y
    width: int = 330
    left: int = 58

    def height(self):
        return HEIGHT


@dataclasses.dataclass
class Rows:
    """Dots in named rows over a horizontal axis. A third number of a point is drawn as a line up to there."""

    title: str
    x_label: str
    rows: list
    series: list
    x_range: tuple = None  # None: logarithmic, around the values
    one: float = None
    width: int = 560
    left: int = 250
    is_bar: bool = False
    row_height: int = 30

    def height(self):
        return self.row_height * len(self.rows)


def number(value):
    text = f"{value:.2f}".rstrip("0").rstrip(".")
    return "0" if text in ("", "-0") else text


def label(value):
    if value >= 1e6 and value % 1e5 == 0:
        return f"{number(value / 1e6)} M"
    return f"{value:,.0f}" if value >= 1000 else f"{value:g}"


def log_ticks(low, high):
    """1, 2, 5, 10 ... around the numbers; whole decades where they span many."""
    steps = (1,) if high / low > 1000 else (1, 2, 5)
    every = [step * 10.0 ** decade
             for decade in range(math.floor(math.log10(low)) - 1, math.ceil(math.log10(high)) + 2) for step in steps]
    first = max(each for each in every if each <= low * 1.0001)
    last = min(each for each in every if each >= high * 0.9999)
    return [each for each in every if first <= each <= last]


def even_ticks(low, high):
    step = 10.0 ** math.floor(math.log10((high - low) / 4))
    step = next(step * factor for factor in (1, 2, 2.5, 5, 10) if (high - low) / (step * factor) <= 6)
    return [low + step * i for i in range(int(round((high - low) / step)) + 1)]


class Scale:
    def __init__(self, low, high, begin, end, is_log):
        self.low, self.high, self.begin, self.end, self.is_log = low, high, begin, end, is_log

    def __call__(self, value):
        if not self.low * 0.999 <= value <= self.high * 1.001:
            raise ValueError(f"{value} lies outside of the axis, {self.low} to {self.high}")
        if self.is_log:
            part = math.log(value / self.low) / math.log(self.high / self.low)
        else:
            part = (value - self.low) / (self.high - self.low)
        return self.begin + part * (self.end - self.begin)


class Picture:
    def __init__(self, title, panels, note=""):
        self.parts = []
        legend = max(len(panel.series) for panel in panels)
        width = 2 * MARGIN + sum(panel.left + panel.width for panel in panels) + 14 * (len(panels) - 1)
        body = max(panel.height() for panel in panels)
        legend_top = TOP + body + 62
        height = legend_top + LEGEND_LINE * legend + (18 if note else 0)
        left, before = MARGIN, None
        for panel in panels:
            plot_left = left + panel.left
            self.text("heading", left, TOP - 22, panel.title)
            (self.lines if isinstance(panel, Lines) else self.rows)(panel, plot_left)
            if not before or [(each.name, each.role) for each in panel.series] != before:
                self.legend(panel, plot_left if isinstance(panel, Lines) else left, legend_top)
            before = [(each.name, each.role) for each in panel.series]
            left = plot_left + panel.width + 14
        if note:
            self.text("muted", MARGIN, height - 12, note)
        head = (f'<svg xmlns="http://www.w3.org/2000/svg" class="plot" role="img" width="{width}" height="{height}" '
                f'viewBox="0 0 {width} {height}" aria-label="{html.escape(title)}">\n{STYLE}')
        frame = (f'<rect class="ground" x="0.5" y="0.5" width="{width - 1}" height="{height - 1}" rx="8"/>\n'
                 f'<text class="title" x="{MARGIN}" y="34">{html.escape(title)}</text>\n')
        self.svg = head + frame + "".join(self.parts) + "</svg>\n"

    def add(self, text):
        self.parts.append(text + "\n")

    def text(self, classes, x, y, words, anchor="start"):
        self.add(f'<text class="{classes}" x="{number(x)}" y="{number(y)}" text-anchor="{anchor}">'
                 f"{html.escape(words)}</text>")

    def line(self, classes, x1, y1, x2, y2):
        self.add(f'<line class="{classes}" x1="{number(x1)}" y1="{number(y1)}" x2="{number(x2)}" y2="{number(y2)}"/>')

    def dot(self, classes, x, y, radius=4):
        self.add(f'<circle class="{classes}" cx="{number(x)}" cy="{number(y)}" r="{radius}"/>')

    def begin(self, series):
        self.add(f'<g class="{series.role}{" dashed" if series.is_dashed else ""}"><title>{html.escape(series.name)}'
                 "</title>")

    def lines(self, panel, left):
        bottom, right = TOP + HEIGHT, left + panel.width
        xs = sorted({point[0] for series in panel.series for point in series.points})
        ys = [point[1] for series in panel.series for point in series.points]
        x = Scale(xs[0], xs[-1], left + 20, right - 20, True)
        ticks = even_ticks(*panel.y_range) if panel.y_range else log_ticks(min(ys), max(ys))
        y = Scale(ticks[0], ticks[-1], bottom, TOP, panel.y_range is None)
        for tick in ticks:
            self.line("grid", left, y(tick), right, y(tick))
            self.text("muted", left - 8, y(tick) + 4, label(round(tick, 6)), "end")
        if panel.one is not None:
            self.line("one", left, y(panel.one), right, y(panel.one))
        self.line("axis", left, bottom, right, bottom)
        free = left
        for each in xs:
            self.line("axis", x(each), bottom, x(each), bottom + 4)
            half = 3.4 * len(label(each))
            if x(each) - half < free:
                continue
            self.text("muted", x(each), bottom + 17, label(each), "middle")
            free = x(each) + half + 6
        self.text("muted", (left + right) / 2, bottom + 36, panel.x_label, "middle")
        self.text("muted", left, TOP - 6, panel.y_label)
        for series in panel.series:
            self.begin(series)
            path = " ".join(f"{number(x(a))},{number(y(b))}" for a, b in series.points)
            self.add(f'<polyline class="step" points="{path}"/>')
            for a, b in series.points:
                self.dot("dot", x(a), y(b))
            self.add("</g>")

    def rows(self, panel, left):
        bottom, right = TOP + panel.height(), left + panel.width
        ends = [value for series in panel.series for point in series.points for value in point[1:]]
        ticks = even_ticks(*panel.x_range) if panel.x_range else log_ticks(min(ends), max(ends))
        x = Scale(ticks[0], ticks[-1], left, right, panel.x_range is None)
        for tick in ticks:
            self.line("grid", x(tick), TOP, x(tick), bottom)
            self.text("muted", x(tick), bottom + 17, label(round(tick, 6)), "middle")
        if panel.one is not None:
            self.line("one", x(panel.one), TOP, x(panel.one), bottom)
        self.line("axis", left, bottom, right, bottom)
        self.text("muted", (left + right) / 2, bottom + 36, panel.x_label, "middle")
        middle = {row: TOP + panel.row_height * (i + 0.5) for i, row in enumerate(panel.rows)}
        for row in panel.rows:
            self.text("name", left - 10, middle[row] + 4, row, "end")
        count = len(panel.series)
        for i, series in enumerate(panel.series):
            self.begin(series)
            for row, value, *upto in series.points:
                y = middle[row] + (i - (count - 1) / 2) * min(9, panel.row_height / max(1, count))
                if panel.is_bar:
                    thick = 7
                    self.add(f'<rect class="bar" x="{number(left)}" y="{number(y - thick / 2)}" '
                             f'width="{number(x(value) - left)}" height="{thick}" rx="1.5"/>')
                    continue
                if upto:
                    self.line("spread", x(value), y, x(upto[0]), y)
                    self.dot("end", x(upto[0]), y, 3)
                self.dot("dot", x(value), y)
            self.add("</g>")

    def legend(self, panel, left, top):
        for series in panel.series:
            self.begin(series)
            self.line("step", left, top - 4, left + 26, top - 4)
            self.dot("dot", left + 13, top - 4)
            self.add("</g>")
            self.text("name", left + 34, top, series.name)
            top += LEGEND_LINE
