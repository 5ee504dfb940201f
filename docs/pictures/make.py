#!/usr/bin/env python3
"""Makes the pictures of the README: docs/pictures/live-view.svg and docs/pictures/report.png.

    python3 docs/pictures/make.py [SCONCE]

SCONCE is the binary, target/release/sconce if left out. It takes the package `pyte`, a terminal in memory, and a
Chromium. `sconce demo` runs in that terminal; its screen in the middle of the run becomes the first picture, its report
the second.
"""

import fcntl
import html
import os
import pty
import select
import shutil
import struct
import subprocess
import sys
import tempfile
import termios
from pathlib import Path

import pyte

COLUMNS, ROWS = 104, 30
CELL_WIDTH, CELL_HEIGHT, BASELINE = 8.4, 18, 13
BACKGROUND, FOREGROUND = "#16181d", "#d7dae0"
PALETTE = {
    "black": "#3b4048", "red": "#e06c75", "green": "#98c379", "brown": "#e5c07b", "yellow": "#e5c07b", "blue": "#61afef",
    "magenta": "#c678dd", "cyan": "#56b6c2", "white": "#d7dae0", "brightblack": "#7f848e", "brightred": "#ef8087",
    "brightgreen": "#b1d196", "brightbrown": "#f0d399", "brightyellow": "#f0d399", "brightblue": "#84c1f5",
    "brightmagenta": "#d49be6", "brightcyan": "#7fcbd5", "brightwhite": "#ffffff",
}


def screen_of_demo(sconce, directory):
    """Runs the demonstration in a terminal; returns its screen in the middle, and waits for its end."""
    screen = pyte.Screen(COLUMNS, ROWS)
    stream = pyte.ByteStream(screen)
    process, terminal = pty.fork()
    if process == 0:
        os.environ.update(TERM="xterm-256color", COLORTERM="truecolor")
        os.execv(sconce, ["sconce", "demo", str(directory), "--no-open"])
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", ROWS, COLUMNS, 0, 0))
    ripe = None
    while True:
        if not select.select([terminal], [], [], 60)[0]:
            sys.exit("the demonstration says nothing any more")
        try:
            data = os.read(terminal, 65536)
        except OSError:
            break
        if not data:
            break
        stream.feed(data)
        # What the view asks the terminal about itself.
        if b"\x1b[6n" in data:
            os.write(terminal, b"\x1b[1;1R")
        if ripe is None and any("7/10" in line for line in screen.display[:6]):
            ripe = [[screen.buffer[row][column] for column in range(COLUMNS)] for row in range(ROWS)]
    os.waitpid(process, 0)
    if ripe is None:
        sys.exit("the live view never said that it is in epoch 7 of 10:\n" + "\n".join(screen.display))
    return ripe


def color(name, otherwise):
    if name == "default":
        return otherwise
    return PALETTE.get(name, f"#{name}")


def svg(cells):
    """A screen as a picture: a rectangle for each run of cells with a background, a text for each run of one style."""
    width, height = COLUMNS * CELL_WIDTH + 24, ROWS * CELL_HEIGHT + 24
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:g} {height:g}" width="{width:g}" height="{height:g}">',
        "<title>The live view of a run in a terminal</title>",
        f'<rect width="100%" height="100%" rx="8" fill="{BACKGROUND}"/>',
        '<g font-family="ui-monospace, SFMono-Regular, Menlo, Consolas, DejaVu Sans Mono, monospace" font-size="14">',
    ]
    for row, line in enumerate(cells):
        styles = []
        for cell in line:
            front, back = color(cell.fg, FOREGROUND), color(cell.bg, BACKGROUND)
            if cell.reverse:
                front, back = back, front
            styles.append((front, back, cell.bold))
        start = 0
        while start < COLUMNS:
            end = start + 1
            while end < COLUMNS and styles[end] == styles[start]:
                end += 1
            front, back, bold = styles[start]
            # Spaces in a row would become one.
            text = "".join(cell.data for cell in line[start:end]).replace(" ", "\u00a0")
            x, y = 12 + start * CELL_WIDTH, 12 + row * CELL_HEIGHT
            length = (end - start) * CELL_WIDTH
            if back != BACKGROUND:
                parts.append(f'<rect x="{x:g}" y="{y:g}" width="{length:g}" height="{CELL_HEIGHT}" fill="{back}"/>')
            if text.strip():
                weight = ' font-weight="bold"' if bold else ""
                parts.append(
                    f'<text x="{x:g}" y="{y + BASELINE:g}" fill="{front}"{weight} textLength="{length:g}" '
                    f'lengthAdjust="spacingAndGlyphs">{html.escape(text)}</text>'
                )
            start = end
    return "\n".join([*parts, "</g>", "</svg>", ""])


def main():
    here = Path(__file__).resolve().parent
    sconce = str(Path(sys.argv[1] if len(sys.argv) > 1 else here.parents[1] / "target/release/sconce").resolve())
    browser = next(filter(None, map(shutil.which, ["chromium", "chromium-browser", "google-chrome"])), None)
    if browser is None:
        sys.exit("a Chromium is needed for the picture of the report: `apt-get install chromium`")
    with tempfile.TemporaryDirectory() as scratch:
        demo = Path(scratch, "demo")
        (here / "live-view.svg").write_text(svg(screen_of_demo(sconce, demo)))
        subprocess.run(
            [browser, "--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--window-size=1100,1010",
             f"--screenshot={here / 'report.png'}", (demo / "run/report.html").as_uri()],
            check=True, stderr=subprocess.DEVNULL,
        )


if __name__ == "__main__":
    main()
