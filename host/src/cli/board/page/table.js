// The table of runs. All are sorted and filtered in memory; a page of them is in the document.

const ROWS = 50;

const STATES = { completed: "good", running: "busy", failed: "bad", crashed: "bad", diverged: "bad" };

/** All columns there are, each with a value for every run. */
function columnsOf(data) {
  const { runs } = data;
  const fixed = [
    { key: "run", label: "Run", values: runs.name, isShown: true },
    { key: "path", label: "Directory", values: runs.path, isShown: new Set(runs.name).size < runs.name.length },
    { key: "state", label: "State", values: runs.state, isShown: true },
    { key: "epochs", label: "Epochs", values: runs.epochs, isShown: true,
      text: run => (runs.planned[run] == null ? String(runs.epochs[run]) : `${runs.epochs[run]}/${runs.planned[run]}`) },
    { key: "seconds", label: "Time", values: runs.seconds, isShown: true, text: run => duration(runs.seconds[run]) },
    { key: "begun", label: "Begun", values: runs.begun, isShown: false, text: run => moment(runs.begun[run]) },
  ];
  return [...fixed, ...metricColumns(data.metrics), ...differenceColumns(data.differences)];
}

/** For each metric its best and its last values; those of validation are shown, or else those of training. */
function metricColumns(metrics) {
  const main = metrics.some(metric => metric.name.startsWith("val/")) ? "val/" : "train/";
  let room = 3;
  return metrics.flatMap(metric => {
    const isMain = metric.name.startsWith(main) && room > 0;
    if (isMain) room -= 1;
    const hasBest = metric.best.some(value => value != null);
    const best = { key: metric.name, label: `${metric.name} best`, values: metric.best, goal: metric.goal, isMetric: true, isShown: isMain,
      note: run => (metric.at[run] == null ? "" : `at ${metric.at[run]}`) };
    const last = { key: hasBest ? `last:${metric.name}` : metric.name, label: `${metric.name} last`, values: metric.last,
      goal: metric.goal, isMetric: true, isShown: isMain || metric.name.startsWith("test/") };
    return hasBest ? [best, last] : [last];
  });
}

/** What differs between the manifests. */
const differenceColumns = differences => differences.map(({ path, values }, index) =>
  ({ key: path, label: path, values, isShown: index < 12, isDifference: true, text: run => brief(values[run]) }));

const isNumber = value => typeof value === "number";

/** Compares runs by a column: numbers, then texts, then what is missing, the latter two last in either direction. */
function comparison({ values }, descending) {
  const sign = descending ? -1 : 1;
  const collator = new Intl.Collator(undefined, { numeric: true });
  const kind = value => (isNumber(value) ? 0 : value == null ? 2 : 1);
  return (a, b) => {
    const [x, y] = [values[a], values[b]];
    const [kx, ky] = [kind(x), kind(y)];
    if (kx !== ky) return kx - ky;
    const order = kx === 0 ? x - y : kx === 1 ? collator.compare(worded(x), worded(y)) : 0;
    return order * sign || a - b;
  };
}

/** The best value of a column among runs, which is marked. */
function bestOf(column, order) {
  if (!column.goal) return null;
  let best = null;
  for (const run of order) {
    const value = column.values[run];
    if (isNumber(value) && (best == null || (column.goal === "less" ? value < best : value > best))) best = value;
  }
  return best;
}

class Table {
  /** `chosen` are the paths of drawn runs, by their colours; `open` shows a run's details. */
  constructor(chosen, { open, choose }) {
    Object.assign(this, { chosen, open, choose, columns: [], order: [], page: 0, sort: { key: "run", descending: false } });
    this.head = byId("runs").tHead.rows[0];
    this.body = byId("runs").tBodies[0];
    /** Whether a column is shown, where the reader has said so. */
    this.wanted = new Map();
  }

  /** Takes other data. */
  set(data) {
    this.data = data;
    this.columns = columnsOf(data);
    this.texts = data.runs.path.map((path, run) =>
      [path, ...this.columns.filter(column => !column.isMetric).map(column => worded(column.values[run]))].join("\n").toLowerCase());
    const keys = this.columns.map(column => column.key).join("\n");
    if (keys !== this.keys) {
      this.keys = keys;
      this.drawChoices();
      this.drawHead();
    }
  }

  isShown(column) {
    return this.wanted.get(column.key) ?? column.isShown;
  }

  get shownColumns() {
    return this.columns.filter(column => this.isShown(column));
  }

  /** Shows the runs that a filter and a directory leave; returns what is wrong with the filter. */
  filter(text, below) {
    const { matches, problem } = parseFilter(text, this.columns, run => this.texts[run]);
    const { path } = this.data.runs;
    this.order = path.map((_, run) => run).filter(run => matches(run) && (!below || path[run].startsWith(`${below}/`)));
    this.page = 0;
    this.sortRows();
    return problem;
  }

  sortBy(key) {
    const column = this.columns.find(column => column.key === key);
    const isSame = this.sort.key === key;
    // The best come first.
    this.sort = { key, descending: isSame ? !this.sort.descending : column?.goal === "greater" };
    this.page = 0;
    performance.mark("board-sort");
    this.sortRows();
    this.drawBody();
    performance.measure("board-sorted", "board-sort");
  }

  sortRows() {
    const column = this.columns.find(column => column.key === this.sort.key) ?? this.columns[0];
    this.order.sort(comparison(column, this.sort.descending));
    for (const cell of this.head.cells) {
      const isSorted = cell.dataset.key === column.key;
      if (isSorted) cell.setAttribute("aria-sort", this.sort.descending ? "descending" : "ascending");
      else if (cell.dataset.key) cell.setAttribute("aria-sort", "none");
    }
  }

  drawChoices() {
    byId("columns").replaceChildren(...this.columns.slice(1).map(column => {
      const onchange = event => {
        this.wanted.set(column.key, event.target.checked);
        this.drawHead();
        this.drawBody();
      };
      return html("label", {}, html("input", { type: "checkbox", checked: this.isShown(column), onchange }), ` ${column.label}`);
    }));
  }

  drawHead() {
    const heading = column => html("th", { scope: "col", "data-key": column.key, class: column.key === "run" ? "name" : null },
      html("button", { type: "button", onclick: () => this.sortBy(column.key) }, column.label));
    this.head.replaceChildren(html("th", { scope: "col" }, html("span", { class: "unseen" }, "Drawn")),
      ...this.shownColumns.map(heading));
    this.sortRows();
  }

  drawBody() {
    const pages = Math.max(1, Math.ceil(this.order.length / ROWS));
    this.page = Math.min(this.page, pages - 1);
    const columns = this.shownColumns;
    const best = columns.map(column => bestOf(column, this.order));
    const focused = document.activeElement?.closest?.("tr")?.dataset.path;
    const place = document.activeElement?.localName;
    const rows = this.order.slice(this.page * ROWS, (this.page + 1) * ROWS);
    this.body.replaceChildren(...rows.map(run => this.row(run, columns, best)));
    if (focused != null)
      [...this.body.rows].find(row => row.dataset.path === focused)?.querySelector(place === "input" ? "input" : "button")?.focus();
    this.drawPages(pages);
  }

  row(run, columns, best) {
    const path = this.data.runs.path[run];
    const name = this.data.runs.name[run] || path || "(without a name)";
    const index = this.chosen.get(path);
    const choose = html("input", { type: "checkbox", checked: index != null, "aria-label": `draw ${name}`,
      onchange: event => this.choose(path, event.target.checked) });
    const mark = html("span", { class: index == null ? "mark" : `mark ${colourOf(index)}` });
    const cells = columns.map((column, at) => this.cell(column, run, path, name, best[at]));
    return html("tr", { "data-path": path }, html("td", { class: "chosen" }, choose, mark), ...cells);
  }

  cell(column, run, path, name, best) {
    const value = column.values[run];
    if (column.key === "run")
      return html("th", { scope: "row", class: "name" },
        html("button", { type: "button", title: path, onclick: () => this.open(path) }, name));
    if (column.key === "state") {
      const title = this.data.runs.reason[run];
      return html("td", { title }, html("span", { class: `state ${STATES[value] ?? "warn"}` }, value));
    }
    const text = column.text?.(run) ?? shown(value);
    const isBest = best != null && value === best;
    const note = column.note?.(run);
    return html("td", { class: isNumber(value) ? "n" : "t" }, isBest ? html("strong", { title: "the best" }, `${text} *`) : text,
      note ? html("small", {}, ` ${note}`) : null);
  }

  drawPages(pages) {
    const turn = by => {
      this.page += by;
      this.drawBody();
    };
    const first = this.page * ROWS;
    const nav = byId("pages");
    const active = document.activeElement?.dataset?.turn;
    const button = (text, by, isPossible) =>
      html("button", { type: "button", "data-turn": by, disabled: !isPossible, onclick: () => turn(by) }, text);
    nav.replaceChildren(
      button("Previous", -1, this.page > 0),
      html("span", { "aria-live": "polite" },
        this.order.length ? `${first + 1} to ${Math.min(first + ROWS, this.order.length)} of ${this.order.length}` : "no run matches"),
      button("Next", 1, this.page < pages - 1));
    if (active) (nav.querySelector(`[data-turn="${active}"]:enabled`) ?? nav.querySelector("button:enabled"))?.focus();
  }
}
