// What the page does: it reads the runs, shows them, and asks for curves and details of those that are chosen.

/** Most runs that are drawn at a time. */
const MOST_DRAWN = 28;

/** Where data come from: this page itself, if it was exported, or its server. */
const within = JSON.parse(byId("data").textContent);
const pathOf = run => run.split("/").map(encodeURIComponent).join("/");
async function fetched(address) {
  const answer = await fetch(address);
  if (!answer.ok) throw new Error((await answer.text()).trim());
  return answer.json();
}
const source = within
  ? { runs: async () => within.runs, curves: async run => within.curves[run] ?? {}, details: async run => within.details[run] }
  : { runs: () => fetched("runs.json"), curves: run => fetched(`curves/${pathOf(run)}`), details: run => fetched(`details/${pathOf(run)}`) };

let data = null;
/** Chosen runs: the index of each one's colour by its path. */
const chosen = new Map();
/** Curves by path, with the epochs and the state that they were read at. */
const curves = new Map();
/** The run whose details are shown, and how far it had come. */
let opened = null, openedAt = "";

const table = new Table(chosen, { open: openDetails, choose });
const nameOf = run => data.runs.name[data.runs.path.indexOf(run)] || run || "(without a name)";
const say = text => (byId("status").textContent = text);

/** Names of runs as their directories, where names are not their own. */
function labelOf(run) {
  const name = nameOf(run);
  return data.runs.name.filter(other => other === name).length > 1 ? run : name;
}

// The table.

function show() {
  const problem = table.filter(byId("filter").value, byId("sweep").value);
  byId("filter-problem").textContent = problem;
  byId("filter").setAttribute("aria-invalid", String(Boolean(problem)));
  table.drawBody();
  showSweeps();
}

function take(found) {
  data = found;
  document.title = `${data.directory}: runs`;
  byId("place").textContent = data.directory;
  for (const run of chosen.keys()) if (!data.runs.path.includes(run)) chosen.delete(run);
  const { page } = table;
  table.set(data);
  offer(byId("sweep"), [["", "all runs"], ...data.sweeps.map(({ path }) => [path, path || "."])]);
  byId("sweep-label").hidden = data.sweeps.length === 0;
  const metrics = table.columns.filter(column => column.goal && !column.key.startsWith("last:"));
  const usual = ["val/accuracy", "val/loss"].find(key => metrics.some(column => column.key === key));
  const isFirst = !byId("metric").options.length;
  offer(byId("metric"), metrics.map(({ key }) => [key, key]));
  if (isFirst && usual) byId("metric").value = usual;
  show();
  table.page = page;
  table.drawBody();
  const running = data.runs.state.filter(state => state === "running").length;
  say(`${data.runs.path.length} runs${running ? `, ${running} running` : ""}`);
}

const showSweeps = later(() => drawSweeps(table.columns, table.order, table.columns.find(column => column.key === byId("metric").value)));

// Curves.

function choose(run, isChosen) {
  if (!isChosen) chosen.delete(run);
  else if (chosen.size < MOST_DRAWN) {
    const taken = new Set(chosen.values());
    chosen.set(run, [...Array(MOST_DRAWN).keys()].find(index => !taken.has(index)));
  } else say(`at most ${MOST_DRAWN} runs are drawn`);
  table.drawBody();
  showCurves();
}

function chooseAll(runs) {
  chosen.clear();
  runs.forEach((run, index) => chosen.set(run, index));
  table.drawBody();
  showCurves();
}

/** How far a run has come: what was read of it is out of date if this differs. */
function progressOf(run) {
  const at = data.runs.path.indexOf(run);
  return `${data.runs.epochs[at]} ${data.runs.state[at]} ${data.runs.seconds[at]}`;
}

/** Reads a run's curves, unless it has done nothing since they were read. */
async function curvesOf(run) {
  const stamp = progressOf(run);
  const known = curves.get(run);
  if (known?.stamp === stamp) return known.curves;
  const found = await source.curves(run);
  curves.set(run, { stamp, curves: found });
  return found;
}

const showCurves = later(async () => {
  const options = { smoothing: Number(byId("smoothing").value), over: byId("over").value, logX: byId("log-x").checked, logY: byId("log-y").checked };
  byId("smoothing-value").textContent = options.smoothing;
  const wanted = [...chosen];
  try {
    const all = await Promise.all(wanted.map(([run]) => curvesOf(run)));
    drawCharts(wanted.map(([run, index], at) => ({ name: labelOf(run), index, curves: all[at] })), options);
  } catch (error) {
    say(`the curves can't be read: ${error.message}`);
  }
});

// Details.

async function openDetails(run) {
  const before = document.activeElement;
  try {
    drawDetails(run, nameOf(run), await source.details(run));
    if (opened !== run) {
      opened = run;
      byId("details").hidden = false;
      byId("details-heading").focus();
    }
    openedAt = progressOf(run);
  } catch (error) {
    opened = null;
    say(`the details can't be read: ${error.message}`);
    before?.focus?.();
  }
}

function closeDetails() {
  byId("details").hidden = true;
  const row = [...table.body.rows].find(row => row.dataset.path === opened);
  (row?.querySelector("th button") ?? byId("filter")).focus();
  opened = null;
}

// Changes, which the server reports while the page is looked at.

let events = null;
let isLost = false;
function listen() {
  events?.close();
  events = null;
  if (within || document.hidden || !data) return;
  events = new EventSource(`events?since=${data.version}`);
  events.onmessage = () => reload();
  events.onerror = () => {
    isLost = true;
    say("no connection: has sconce board ended? What is shown is what was there before");
  };
  events.onopen = () => isLost && reload();
}

const reload = later(async () => {
  try {
    take(await source.runs());
    isLost = false;
    showCurves();
    if (opened != null && data.runs.path.includes(opened) && openedAt !== progressOf(opened)) openDetails(opened);
  } catch (error) {
    say(`the runs can't be read: ${error.message}`);
  }
});

// The beginning.

function attend() {
  const on = (id, event, act) => byId(id).addEventListener(event, act);
  on("filter", "input", later(show));
  on("sweep", "change", () => {
    const sweep = data.sweeps.find(({ path }) => path === byId("sweep").value);
    if (sweep?.metric && [...byId("metric").options].some(({ value }) => value === sweep.metric)) byId("metric").value = sweep.metric;
    show();
  });
  on("metric", "change", showSweeps);
  for (const id of ["smoothing", "over", "log-x", "log-y"]) on(id, "input", showCurves);
  on("select-first", "click", () => chooseAll(table.order.slice(0, COLOURS).map(run => data.runs.path[run])));
  on("select-none", "click", () => chooseAll([]));
  on("details-close", "click", closeDetails);
  on("details", "keydown", event => event.key === "Escape" && closeDetails());
  document.addEventListener("visibilitychange", listen);
}

async function begin() {
  attend();
  try {
    take(await source.runs());
    // The first frame with the table in it.
    requestAnimationFrame(() => setTimeout(() => performance.mark("board-shown")));
    showCurves();
    listen();
  } catch (error) {
    say(`the runs can't be read: ${error.message}`);
  }
}

begin();
