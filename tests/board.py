#!/usr/bin/env python3
"""Looks at the page of `sconce board` in Chromium: a thousand runs, at 1280 and 420 px, light and dark, by keyboard, and exported,
without a network. `tests/browser.sh` calls it.

usage: tests/board.py CHROMIUM SCONCE RUN DIRECTORY    RUN is the directory of a real run; pictures are left in the directory

Every fault found is printed, and how long the table takes to appear and to be sorted.
"""
import json, math, pathlib, random, shutil, subprocess, sys, tempfile, time

from browser import CONTRAST, Browser

RUNS, TRIALS, EPOCHS = 1000, 64, 60
HOSTILE = '<img src=x onerror="window.hit=1">"\'&amp;</script>'

LAYOUT = r"""
(() => {
  const faults = [];
  const visible = element => element.checkVisibility();
  const about = element => `${element.localName} \`${(element.textContent || element.id).trim().slice(0, 40)}\``;
  if (document.documentElement.scrollWidth > innerWidth)
    faults.push(`${document.documentElement.scrollWidth} px wide, and the window ${innerWidth}`);
  for (const element of [...document.querySelectorAll("input, select, button, a, summary")].filter(visible)) {
    const name = element.getAttribute("aria-label") || element.labels?.[0]?.textContent || element.textContent || element.title;
    if (!name?.trim()) faults.push(`${element.outerHTML.slice(0, 80)} has no name`);
    const box = element.getBoundingClientRect();
    if (!element.closest(".wide") && (box.left < 0 || box.right > innerWidth + 1)) faults.push(`${about(element)} goes beyond the window`);
  }
  for (const chart of [...document.querySelectorAll("#charts svg")].filter(visible)) {
    const box = chart.getBoundingClientRect();
    if (box.width < 150 || box.height < 80) faults.push(`a chart is ${box.width} × ${box.height} px`);
    for (const text of chart.querySelectorAll("text")) {
      const label = text.getBoundingClientRect();
      if (label.left < box.left - 2 || label.right > box.right + 2 || label.top < box.top - 2 || label.bottom > box.bottom + 2)
        faults.push(`${about(text)} of a chart is cut off`);
    }
  }
  for (const table of [...document.querySelectorAll("table")].filter(visible)) {
    if (!table.caption) faults.push(`${about(table)} has no caption`);
    for (const cell of table.querySelectorAll("th")) if (!cell.scope) faults.push(`${about(cell)} heads nothing`);
  }
  return faults;
})()
"""


def curve(draw, rate):
    """Losses by epoch."""
    level = 0.2 + abs(math.log10(rate) + 2.5) * 0.3 + draw.random() * 0.05
    return [level + 2 * math.exp(-epoch / 12) + draw.gauss(0, 0.01) for epoch in range(1, EPOCHS + 1)]


def make_runs(place, real):
    """A real run, one with a hostile name, a sweep and others, of which the last has not ended. Returns the directory of that, and the
    sweep's learning rates and best losses."""
    draw = random.Random(7)
    trials = []
    shutil.copytree(real, place / "trained", symlinks=True)
    template = json.loads((real / "manifest.json").read_text())
    names = ["trained"] + [f"sweep/{n:04}" for n in range(1, TRIALS + 1)]
    names += [f"others/run-{n:03}" for n in range(RUNS - len(names))]
    for number, path in enumerate(names[1:], 1):
        run = place / path
        run.mkdir(parents=True)
        rate, batch, kind = 10 ** draw.uniform(-4, -1), draw.choice([16, 32, 64]), draw.choice(["adamw", "sgd", "adam"])
        manifest = json.loads(json.dumps(template))
        manifest["name"] = HOSTILE if number == len(names) - 2 else path.split("/")[-1]
        manifest["optimizer"].update(learning_rate=rate, kind=kind)
        manifest["train"].update(batch_size=batch, epochs=EPOCHS)
        (run / "manifest.json").write_text(json.dumps(manifest))
        losses = curve(draw, rate)
        if path.startswith("sweep/"):
            trials.append((rate, min(losses)))
        for phase, factor in [("train", 0.9), ("val", 1.0)]:
            rows = [f"{e},{e * 100},{e * 100},{rate},{loss * factor},{1 / (1 + loss)}" for e, loss in enumerate(losses, 1)]
            (run / f"{phase}.csv").write_text("epoch,iteration,update,learning_rate,loss,accuracy\n" + "\n".join(rows) + "\n")
        if number < len(names) - 1:
            metrics = {"val": {"loss": losses[-1], "accuracy": 1 / (1 + losses[-1])}}
            record = {"outcome": "failed" if number % 97 == 0 else "completed", "epochs": EPOCHS, "seconds": 60 + draw.random() * 9, "metrics": metrics}
            (run / "run.json").write_text(json.dumps(record))
    (place / "sweep/trials.jsonl").write_text("")
    (place / "sweep/results.csv").write_text("trial,state,epochs,val/loss,seconds\n")
    classes = [f"class {n}" for n in range(8)]
    rows = [",".join([name] + [str(draw.randrange(90) if n == m else draw.randrange(6)) for m in range(8)]) for n, name in enumerate(classes)]
    (place / "trained/confusion-val.csv").write_text("true \\ predicted," + ",".join(classes) + "\n" + "\n".join(rows) + "\n")
    return place / names[-1], trials


def importance(pairs, groups=8):
    """Epsilon squared of ranks in groups of equal size, and Spearman's rank correlation, of values without ties; less is better."""
    count = len(pairs)
    ranks = [{value: rank for rank, value in enumerate(sorted(values))} for values in zip(*pairs)]
    points = [(ranks[0][a], ranks[1][b]) for a, b in pairs]
    squares = lambda values: sum((value - sum(values) / len(values)) ** 2 for value in values)
    within = sum(squares([b for a, b in points if a * groups // count == group]) for group in range(groups))
    all_ranks = squares([b for _, b in points])
    return 1 - within / (count - groups) / (all_ranks / (count - 1)), 6 * sum((a - b) ** 2 for a, b in points) / (count * (count**2 - 1)) - 1


class Page:
    """The page in a browser, and what was found wrong with it."""

    def __init__(self, browser):
        self.browser, self.faults = browser, []

    def check(self, where, holds, what):
        if not holds:
            self.faults.append(f"{where}: {what}")

    def note(self, where, found):
        self.faults.extend(f"{where}: {fault}" for fault in found)

    def get(self, expression):
        return self.browser.evaluate(expression)

    def until(self, what, expression):
        """Waits for something, up to a minute."""
        for _ in range(600):
            if self.get(f"Boolean({expression})"):
                return
            time.sleep(0.1)
        sys.exit(f"this does not come: {what}; the page says: {self.get('document.getElementById(`status`)?.textContent')}")

    def open(self, address, width, scheme):
        self.browser.open(address, width, scheme=scheme)
        self.until("the table", "document.querySelectorAll('#runs tbody tr').length === 50 && performance.getEntriesByName('board-shown').length")

    def press(self, *keys):
        codes = {"Tab": 9, "Enter": 13, "Escape": 27, " ": 32, "ArrowRight": 39, "End": 35}
        for key in keys:
            text = {"Enter": "\r", " ": " "}.get(key)
            event = {"key": key, "code": "Space" if key == " " else key, "windowsVirtualKeyCode": codes[key]}
            self.browser.call("Input.dispatchKeyEvent", type="keyDown", **event, **({"text": text} if text else {}))
            self.browser.call("Input.dispatchKeyEvent", type="keyUp", **event)

    def type(self, text):
        self.browser.call("Input.insertText", text=text)

    def tab_to(self, what, condition):
        """Presses Tab until an element has the focus."""
        for _ in range(200):
            self.press("Tab")
            if self.get(f"Boolean((e => {condition})(document.activeElement))"):
                return
        self.faults.append(f"keyboard: {what} is not reached by Tab")

    def draw(self):
        """Draws the first runs, and waits for their curves."""
        self.get("document.getElementById('select-first').click()")
        self.until("curves", "document.querySelectorAll('#charts figure').length >= 4")

    def problems(self):
        """Errors of scripts and refusals of the content security policy."""
        for event in self.browser.events:
            if event["method"] == "Runtime.exceptionThrown":
                yield str(event["params"]["exceptionDetails"].get("exception", {}).get("description"))
            if event["method"] == "Log.entryAdded" and event["params"]["entry"]["level"] == "error":
                yield event["params"]["entry"]["text"]
        self.browser.events.clear()


def times(page):
    """How long the table takes to appear and to be sorted, in milliseconds."""
    shown = page.get("performance.getEntriesByName('board-shown')[0].startTime")
    paint = page.get("performance.getEntriesByName('first-contentful-paint')[0]?.startTime")
    sorts = page.get("""(() => {
      for (let i = 0; i < document.querySelectorAll('#runs thead button').length; i += 1)
        for (const _ of [1, 2]) document.querySelectorAll('#runs thead button')[i].click();
      return performance.getEntriesByName('board-sorted').map(entry => entry.duration);
    })()""")
    heap = page.get("performance.memory?.usedJSHeapSize") or 0
    print(f"{RUNS} runs: first paint {paint:.0f} ms, with the table {shown:.0f} ms; {len(sorts)} sorts, the slowest {max(sorts):.1f} ms; "
          f"{heap / 1e6:.0f} MB of objects")


def appearance(page, address, directory):
    for width, scheme in [(1280, "light"), (420, "light"), (1280, "dark"), (420, "dark")]:
        where = f"board-{width}-{scheme}"
        page.open(address, width, scheme)
        page.draw()
        page.until("importance", "document.querySelectorAll('#sweeps tbody tr').length")
        page.note(where, page.get(LAYOUT))
        page.note(where, page.get(CONTRAST))
        page.browser.picture(directory / f"{where}.png")
        dark = page.get("getComputedStyle(document.body).backgroundColor.match(/\\d+/g).every(v => v < 60)")
        page.check(where, dark == (scheme == "dark"), "the colour scheme is not the reader's")
        page.get("[...document.querySelectorAll('#runs tbody button')].find(b => b.title === 'trained')?.click()")
        page.get("for (const part of document.querySelectorAll('details:not(.framed)')) part.open = true")
        page.note(f"{where}, unfolded", page.get(LAYOUT))


def keyboard(page, address, directory):
    page.open(address, 1280, "light")
    page.tab_to("the filter", "e.id === 'filter'")
    page.type("state=completed val/loss<0.4")
    page.until("the filtered table", "/ of \\d+$/.test(document.querySelector('#pages span').textContent) && !/ of 1000$/.test(document.querySelector('#pages span').textContent)")
    states = page.get("[...new Set([...document.querySelectorAll('.state')].map(e => e.textContent))]")
    page.check("keyboard", states == ["completed"], f"the filter leaves {states}")
    page.tab_to("the heading of val/loss", "e.closest('th')?.dataset.key === 'val/loss'")
    page.press("Enter")
    page.check("keyboard", page.get("document.activeElement.closest('th').ariaSort") == "ascending", "Enter does not sort")
    values = page.get("[...document.querySelectorAll('#runs tbody tr')].map(r => parseFloat(r.cells[[...document.querySelector('#runs thead tr').cells].findIndex(c => c.dataset.key === 'val/loss')].textContent))")
    page.check("keyboard", values == sorted(values) and values[-1] < 0.4, f"the order is {values[:5]} …")
    page.press("Enter")
    page.check("keyboard", page.get("document.activeElement.closest('th').ariaSort") == "descending", "Enter does not sort the other way")
    page.tab_to("a run's box", "e.type === 'checkbox' && e.closest('tbody')")
    page.press(" ")
    page.until("its curves", "document.querySelectorAll('#charts figure').length === 4")
    page.check("keyboard", page.get("document.activeElement.checked"), "the box has lost the focus")
    page.tab_to("a run's name", "e.closest('tbody th')")
    run = page.get("document.activeElement.title")
    page.press("Enter")
    page.until("the details", "document.activeElement.id === 'details-heading'")
    page.press("Escape")
    page.check("keyboard", page.get("document.activeElement.title") == run, "the focus does not return from the details")
    page.tab_to("a chart", "e.closest('#charts svg')")
    page.press("ArrowRight", "ArrowRight")
    reading = page.get("document.activeElement.parentElement.querySelector('.readings').textContent")
    page.check("keyboard", reading.startswith("epoch 2: "), f"the chart reads {reading!r}")


def contents(page, address, directory, trials):
    page.open(address, 1280, "light")
    page.get("document.getElementById('filter').value = 'onerror'; document.getElementById('filter').dispatchEvent(new Event('input'))")
    page.until("the hostile run", "document.querySelectorAll('#runs tbody tr').length === 1")
    page.draw()
    page.get("document.querySelector('#runs tbody button').click()")
    page.until("its details", "!document.getElementById('details').hidden")
    page.check("texts", page.get("document.getElementById('details-heading').textContent") == HOSTILE, "a name is not shown as it is")
    page.check("texts", page.get("window.hit === undefined && !document.querySelector('img[src=x]')"), "a run's name is taken for markup")
    page.get("document.getElementById('filter').value = 'nothing=3'; document.getElementById('filter').dispatchEvent(new Event('input'))")
    page.until("what is wrong", "document.getElementById('filter-problem').textContent.includes('no column')")
    page.get("document.getElementById('filter').value = 'trained'; document.getElementById('filter').dispatchEvent(new Event('input'))")
    page.until("the real run", "document.querySelectorAll('#runs tbody tr').length === 1")
    page.get("document.querySelector('#runs tbody button').click()")
    page.until("the matrix", "document.querySelector('.confusion tbody')?.rows.length === 8")
    page.until("its pictures", "[...document.querySelectorAll('#details img')].every(i => (i.loading = 'eager', i.complete && i.naturalWidth > 0))")
    page.get("document.querySelector('.framed').open = true")
    page.until("the report", "document.querySelector('.framed iframe')")
    time.sleep(1)
    page.browser.picture(directory / "board-details.png")
    page.get("document.getElementById('filter').value = ''; document.getElementById('sweep').value = 'sweep'; document.getElementById('sweep').dispatchEvent(new Event('change'))")
    page.until("the sweep's trials", f"document.querySelector('#pages span').textContent.endsWith('of {TRIALS}')")
    page.until("its importance", "document.querySelector('#sweeps p')?.textContent.includes('64 runs')")
    rated = page.get("Object.fromEntries([...document.querySelectorAll('#sweeps tbody tr')].map(r => [r.cells[0].textContent, [r.cells[1].textContent, r.cells[3].textContent]]))")
    size, rank = importance(trials)
    expected = [f"{size:.2f}", f"{rank:+.2f}"]
    found = rated.get("optimizer.learning_rate")
    page.check("sweep", found == expected, f"the importance of the learning rate is {found}, and should be {expected}")
    page.browser.picture(directory / "board-sweep.png")


def liveness(page, address, running):
    page.open(address, 1280, "light")
    (running / "run.json").write_text(json.dumps({"outcome": "stopped", "epochs": EPOCHS, "metrics": {}}))
    page.get("document.getElementById('filter').value = 'state=stopped'; document.getElementById('filter').dispatchEvent(new Event('input'))")
    page.until("the change of a run", "document.querySelectorAll('#runs tbody tr').length === 1")


def exported(page, sconce, directory):
    file = directory / "board.html"
    subprocess.run([sconce, "board", directory / "runs", "--export", file], check=True, stdout=subprocess.DEVNULL)
    page.browser.call("Network.enable")
    page.browser.call("Network.emulateNetworkConditions", offline=True, latency=0, downloadThroughput=0, uploadThroughput=0)
    page.browser.events.clear()
    page.open(file, 1280, "dark")
    page.draw()
    page.get("document.querySelector('#runs tbody button').click()")
    page.until("its details", "!document.getElementById('details').hidden")
    page.note("exported", page.get(LAYOUT))
    page.get("document.getElementById('filter').value = 'trained'; document.getElementById('filter').dispatchEvent(new Event('input'))")
    page.until("the real run", "document.querySelectorAll('#runs tbody tr').length === 1")
    page.get("document.querySelector('#runs tbody button').click()")
    page.until("the matrix of the exported page", "document.querySelector('.confusion tbody')?.rows.length === 8")
    page.until("its pictures", "[...document.querySelectorAll('#details img')].every(i => (i.loading = 'eager', i.complete && i.naturalWidth > 0))")
    page.get("document.querySelector('.framed').open = true")
    page.until("the report of the exported page", "document.querySelector('.framed iframe')?.src.startsWith('data:text/html')")
    is_within = "[...document.querySelectorAll('#details img')].every(image => image.src.startsWith('data:image/'))"
    page.check("exported", page.get(is_within), "a picture is not within it")
    time.sleep(1)
    page.browser.picture(directory / "board-exported.png")
    asked = [event["params"]["request"]["url"] for event in page.browser.events if event["method"] == "Network.requestWillBeSent"]
    page.check("exported", all(address.startswith(("file:", "data:")) for address in asked), f"it asks for {asked}")
    print(f"exported: {file.stat().st_size / 1e6:.1f} MB")


def main():
    program, sconce, real, directory = sys.argv[1], *(pathlib.Path(argument).resolve() for argument in sys.argv[2:5])
    running, trials = make_runs(directory / "runs", real)
    server = subprocess.Popen([sconce, "board", directory / "runs"], stdout=subprocess.PIPE, text=True)
    try:
        address = server.stdout.readline().split()[-1]
        with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as home:
            page = Page(Browser(program, home))
            page.browser.call("Runtime.enable")
            page.browser.call("Log.enable")
            page.open(address, 1280, "light")
            times(page)
            appearance(page, address, directory)
            keyboard(page, address, directory)
            contents(page, address, directory, trials)
            liveness(page, address, running)
            page.note("scripts", page.problems())
            exported(page, sconce, directory)
            page.note("scripts of the exported page", page.problems())
            page.browser.close()
    finally:
        server.terminate()
    code = server.wait()
    page.check("server", code == 143, f"its exit code is {code}")
    if page.faults:
        sys.exit("the board is not right:\n" + "\n".join(f"  {fault}" for fault in page.faults))
    print(f"the board is right in {program}: 1280 and 420 px, light and dark, by keyboard, live, and exported without a network")


if __name__ == "__main__":
    main()
