#!/usr/bin/env python3
"""Looks at the `report` hook's page in Chromium, and searches in the documentation's pages: `tests/browser.sh` calls it.

usage: tests/browser.py CHROMIUM PAGE DIRECTORY BOOK    pictures and the printed page are left in the directory

Speaks the DevTools protocol through a pipe, and needs nothing beyond the standard library. Every fault found is printed.
"""
import base64, json, os, pathlib, re, struct, subprocess, sys, tempfile, time, zlib

# What is wrong with the page as it is laid out: a list of sentences.
LAYOUT = r"""
(() => {
  const faults = [];
  const visible = element => element.checkVisibility();
  const about = element => `${element.localName} \`${element.textContent.trim().slice(0, 40)}\``;
  const root = document.documentElement;
  if (root.scrollWidth > innerWidth) faults.push(`${root.scrollWidth} px wide, and the window ${innerWidth}`);

  const figures = [...document.querySelectorAll("figure")].filter(visible);
  if (figures.length < 5) faults.push(`${figures.length} charts`);
  for (const figure of figures) {
    const caption = figure.querySelector("figcaption");
    const charts = [...figure.querySelectorAll("svg")].filter(visible);
    if (charts.length !== 1) faults.push(`${charts.length} views of ${about(figure)} are shown`);
    for (const chart of charts) {
      const box = chart.getBoundingClientRect();
      if (box.width < 150 || box.height < 80) faults.push(`${about(caption)} is ${box.width} × ${box.height} px`);
      if (box.left < 0 || box.right > innerWidth) faults.push(`${about(caption)} goes beyond the window`);
      const gap = box.top - caption.getBoundingClientRect().bottom;
      if (gap < 0 || gap > 120) faults.push(`${about(caption)} is ${gap} px from its chart`);
      for (const text of chart.querySelectorAll("text")) {
        if (!text.textContent.trim()) continue;
        const label = text.getBoundingClientRect();
        if (label.left < box.left - 1 || label.right > box.right + 1 || label.top < box.top - 1 || label.bottom > box.bottom + 1)
          faults.push(`${about(text)} of ${about(caption)} is cut off`);
      }
    }
  }
  for (const section of document.querySelectorAll("section")) {
    const heading = section.querySelector("h2").getBoundingClientRect();
    const content = section.children[1].getBoundingClientRect();
    if (content.height < 1 || content.top - heading.bottom > 40) faults.push(`${about(section)} is not at its heading`);
  }
  for (const mark of document.querySelectorAll(".bar, .bar span, .legend span")) {
    const box = mark.getBoundingClientRect();
    if (visible(mark) && (box.width <= 0 || box.height <= 0)) faults.push(`${mark.className} has no extent`);
  }
  for (const table of document.querySelectorAll("section > .wide"))
    if (table.scrollWidth > table.clientWidth) faults.push(`a table is ${table.scrollWidth} px wide, and its place ${table.clientWidth}`);
  for (const cell of [...document.querySelectorAll("th, td")].filter(visible)) {
    for (const node of cell.childNodes) {
      for (const word of node.nodeType === Node.TEXT_NODE ? node.data.matchAll(/[a-z]{3,12}/gi) : []) {
        const range = document.createRange();
        range.setStart(node, word.index);
        range.setEnd(node, word.index + word[0].length);
        if (new Set([...range.getClientRects()].map(box => box.top)).size > 1) faults.push(`\`${word[0]}\` in a table is broken`);
      }
    }
  }
  const small = document.body.textContent.match(/-?\d(\.\d+)?e-1[3-9]/);
  if (small) faults.push(`${small[0]} for 0`);
  return faults;
})()
"""

# Text of less contrast than WCAG 2.2 asks for, 4.5. What a filter changes is looked at in pixels.
CONTRAST = r"""
(() => {
  const channels = colour => colour.match(/[\d.]+/g).map(Number);
  const luminance = colour => {
    const linear = channels(colour).slice(0, 3).map(v => v / 255).map(v => v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4);
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2];
  };
  const background = element => {
    for (let at = element; at; at = at.parentElement) {
      const colour = getComputedStyle(at).backgroundColor;
      if ((channels(colour)[3] ?? 1) === 1) return colour;
    }
    return "rgb(255, 255, 255)";
  };
  const faults = new Set();
  let looked = 0;
  for (const element of document.body.querySelectorAll("*")) {
    const own = [...element.childNodes].some(node => node.nodeType === Node.TEXT_NODE && node.data.trim());
    if (!own || element.closest("svg, script") || !element.checkVisibility()) continue;
    looked += 1;
    const [a, b] = [getComputedStyle(element).color, background(element)].map(luminance);
    const ratio = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
    if (ratio < 4.5) faults.add(`${element.localName} \`${element.textContent.trim().slice(0, 30)}\` has a contrast of ${ratio.toFixed(1)}`);
  }
  if (looked < 50) faults.add(`only ${looked} texts`);
  return [...faults];
})()
"""

# Colours of bars and legends, as they are meant.
COLOURS = r"""
[...new Set([...document.querySelectorAll(".bar span, .legend span")].filter(mark => mark.checkVisibility())
  .map(mark => getComputedStyle(mark).backgroundColor))].map(colour => colour.match(/\d+/g).map(Number))
"""
# The bar's own parts, which no line of a chart has.
BARS = COLOURS.replace(".bar span, .legend span", ".bar span")
CHARTS = r"""
[...document.querySelectorAll("figure svg")].filter(chart => chart.checkVisibility()).map(chart => {
  const box = chart.getBoundingClientRect();
  return [box.left + scrollX, box.top + scrollY, box.width, box.height].map(Math.round);
})
"""
HEADINGS = '[...document.querySelectorAll("h1, h2, h3")].filter(heading => heading.checkVisibility()).length'


class Browser:
    """One page in a Chromium without a window."""

    def __init__(self, program, home):
        ours, theirs = os.pipe(), os.pipe()

        def descriptors():
            # The protocol's: it reads 3 and writes 4. Copies first: either may be the other's number.
            copies = os.dup(ours[0]), os.dup(theirs[1])
            for number, copy in enumerate(copies, 3):
                os.dup2(copy, number)

        words = [program, "--headless", "--remote-debugging-pipe", "--no-sandbox", "--disable-gpu", "--hide-scrollbars"]
        words += ["--disable-dev-shm-usage", "--no-first-run", f"--user-data-dir={home}", "about:blank"]
        self.log = open(pathlib.Path(home) / "log", "w+")
        self.process = subprocess.Popen(words, preexec_fn=descriptors, close_fds=False, stdout=self.log, stderr=self.log)
        os.close(ours[0])
        os.close(theirs[1])
        self.to, self.answers = ours[1], os.fdopen(theirs[0], "rb")
        self.number, self.session, self.rest, self.events = 0, None, b"", []
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self.session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        self.call("Page.enable")

    def message(self):
        """The next answer or event."""
        while b"\0" not in self.rest:
            more = self.answers.read1(1 << 20)
            if not more:
                self.log.seek(0)
                sys.exit(f"the browser ended:\n{self.log.read()[-2000:]}")
            self.rest += more
        text, self.rest = self.rest.split(b"\0", 1)
        message = json.loads(text)
        if "method" in message:
            self.events.append(message)
        return message

    def call(self, method, **parameters):
        """Calls a method of the protocol and returns its result."""
        self.number += 1
        request = {"id": self.number, "method": method, "params": parameters}
        if self.session:
            request["sessionId"] = self.session
        data = json.dumps(request).encode() + b"\0"
        while data:
            data = data[os.write(self.to, data) :]
        while (answer := self.message()).get("id") != self.number:
            pass
        if "error" in answer:
            sys.exit(f"{method}: {answer['error']['message']}")
        return answer["result"]

    def evaluate(self, expression):
        answer = self.call("Runtime.evaluate", expression=expression, returnByValue=True)
        if "exceptionDetails" in answer:
            sys.exit(f"a script failed: {answer['exceptionDetails']}")
        return answer["result"].get("value")

    def open(self, page, width, media="screen", scheme="light", query=""):
        """Loads a page, a file or an address, in a window of a width in pixels."""
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=900, deviceScaleFactor=1, mobile=width < 600)
        self.call("Emulation.setEmulatedMedia", media=media, features=[{"name": "prefers-color-scheme", "value": scheme}])
        self.call("Page.navigate", url=page if isinstance(page, str) else page.as_uri() + query)
        while self.message().get("method") != "Page.loadEventFired":
            pass

    def picture(self, file):
        """Writes a picture of the complete page and returns its bytes."""
        data = base64.b64decode(self.call("Page.captureScreenshot", captureBeyondViewport=True)["data"])
        file.write_bytes(data)
        return data

    def close(self):
        self.call("Browser.close")
        self.process.wait(20)


def pixels(png):
    """Width, height, and rows of (red, green, blue, …) bytes of a PNG with 8 bits a channel; channels a pixel."""
    width, height, depth, kind = struct.unpack(">IIBB", png[16:26])
    channels = {2: 3, 6: 4}[kind]
    assert depth == 8
    data, at = b"", 8
    while at < len(png):
        size, name = struct.unpack(">I4s", png[at : at + 8])
        if name == b"IDAT":
            data += png[at + 8 : at + 8 + size]
        at += size + 12
    data = zlib.decompress(data)
    stride, rows, above = width * channels, [], bytearray(width * channels)
    for row in range(height):
        start = row * (stride + 1)
        how, line = data[start], bytearray(data[start + 1 : start + 1 + stride])
        for i in range(stride if how else 0):
            left = line[i - channels] if i >= channels else 0
            up, corner = above[i], above[i - channels] if i >= channels else 0
            if how == 1:
                add = left
            elif how == 2:
                add = up
            elif how == 3:
                add = (left + up) // 2
            else:
                a, b, c = abs(up - corner), abs(left - corner), abs(left + up - 2 * corner)
                add = left if a <= b and a <= c else up if b <= c else corner
            line[i] = (line[i] + add) & 255
        rows.append(line)
        above = line
    return channels, rows


def dark_charts(png, charts):
    """Charts that aren't dark with light marks on them."""
    channels, rows = pixels(png)
    for left, top, width, height in charts:
        lights = []
        for row in rows[top : top + height : 2]:
            part = row[left * channels : (left + width) * channels]
            lights += [(2 * r + 7 * g + b) / 2550 for r, g, b in zip(part[0::channels], part[1::channels], part[2::channels])]
        lights.sort()
        if not lights or lights[len(lights) // 2] > 0.25:
            yield f"the chart at {left}, {top} is not dark"
        elif lights[-1] < 0.6:
            yield f"the chart at {left}, {top} has no light text"


def painted(pdf):
    """Colours that a PDF fills areas with, from 0 to 255."""
    found = set()
    for stream in re.findall(rb"stream\r?\n(.*?)endstream", pdf, re.S):
        try:
            text = zlib.decompress(stream)
        except zlib.error:
            continue
        for colour in re.findall(rb"([\d.]+) ([\d.]+) ([\d.]+) rg\b", text):
            found.add(tuple(round(float(part) * 255) for part in colour))
    return found


def printed_headings(pdf):
    """Headings of a PDF's outline: title, and how high above the page's edge, in points."""
    for entry in re.findall(rb"<<[^<>]*?/Title.*?>>", pdf, re.S):
        place = re.search(rb"/XYZ [\d.]+ ([\d.]+)", entry)
        title = re.search(rb"/Title \((.*?)\)", entry, re.S)
        if place:
            yield (title[1].decode("latin-1") if title else "?"), float(place[1])


def searched(browser, book):
    """What is wrong with the search in the documentation's pages, which are files here, without a server."""
    found = "[...document.querySelectorAll('a[href^=\"data.html?highlight\"]')].map(link => link.textContent)"
    browser.open(book / "index.html", 420, query="?search=stratified")
    if browser.evaluate("document.documentElement.scrollWidth > innerWidth"):
        yield "the first page is wider than a phone"
    for _ in range(50):
        if titles := browser.evaluate(found):
            break
        time.sleep(0.1)
    if not any("splits" in title for title in titles):
        yield f"a search for `stratified` finds {titles}"


def main():
    program, page, directory, book = sys.argv[1], *(pathlib.Path(argument).resolve() for argument in sys.argv[2:5])
    faults = []

    def note(where, found):
        faults.extend(f"{where}: {fault}" for fault in found)

    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as home:
        browser = Browser(program, home)
        for width, scheme in [(1280, "light"), (420, "light"), (1280, "dark"), (420, "dark")]:
            where = f"{width}-{scheme}"
            browser.open(page, width, scheme=scheme)
            picture = browser.picture(directory / f"{where}.png")
            note(where, browser.evaluate(LAYOUT))
            note(where, browser.evaluate(CONTRAST))
            if scheme == "dark":
                note(where, dark_charts(picture, browser.evaluate(CHARTS)))
            browser.evaluate("for (const part of document.querySelectorAll('details')) part.open = true")
            note(f"{where}, unfolded", browser.evaluate(LAYOUT))
            note(f"{where}, unfolded", browser.evaluate(CONTRAST))
        # In dark, as many read it: paper stays white. Backgrounds are left out, as browsers do unless asked.
        browser.open(page, 720, media="print", scheme="dark")
        browser.picture(directory / "print.png")
        note("print", browser.evaluate(CONTRAST))
        colours, bars, headings = map(browser.evaluate, (COLOURS, BARS, HEADINGS))
        answer = browser.call("Page.printToPDF", printBackground=False, generateTaggedPDF=True, generateDocumentOutline=True)
        pdf = base64.b64decode(answer["data"])
        (directory / "print.pdf").write_bytes(pdf)
        has_book = (book / "index.html").exists()
        note("documentation", searched(browser, book) if has_book else [])
        browser.close()

    found = painted(pdf)
    if len(colours) < 5 or len(bars) < 3:
        note("print", [f"{len(colours)} colours of bars and legends"])
    for colour in colours:
        if not any(max(abs(a - b) for a, b in zip(colour, other)) <= 1 for other in found):
            note("print", [f"the colour {colour} of bars and legends is not painted"])
    outline = list(printed_headings(pdf))
    if len(outline) != headings:
        note("print", [f"{len(outline)} of {headings} headings are in the outline"])
    # Half an inch is the margin; below a heading there is room for something.
    note("print", [f"`{title}` is alone at the end of a page" for title, height in outline if height < 36 + 50])

    if faults:
        sys.exit("the pages are not right:\n" + "\n".join(f"  {fault}" for fault in faults))
    print(f"the report is right in {program}: 1280 and 420 px, light and dark, {headings} headings and {len(colours)} colours in print")
    print("the documentation's pages are searched" if has_book else "skipped: the documentation is not rendered, and its search not tried")


if __name__ == "__main__":
    main()
