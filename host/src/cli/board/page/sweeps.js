// What differs between the runs that are shown, and how a metric depends on it: importance, and parallel coordinates.

const MOST_AXES = 8;
/** Fewer runs say nothing about importance. */
const FEWEST_RUNS = 5;
/** Most groups that the values of a parameter are put in. */
const MOST_GROUPS = 8;

/** A metric's values as numbers, the better the less; what is not a number, as of a run that diverged, is worst. */
function costs(metric, runs) {
  const sign = metric.goal === "greater" ? -1 : 1;
  return runs.map(run => (isNumber(metric.values[run]) ? sign * metric.values[run] : Infinity));
}

/** How much a metric depends on a parameter alone, from 0 to 1, and the rank correlation of numbers; null if that can't be said. */
function importance(values, cost) {
  const nothing = { size: null, rank: null };
  if (values.length < FEWEST_RUNS) return nothing;
  const ofCosts = ranks(cost);
  const areNumbers = values.every(isNumber);
  const groups = areNumbers ? grouped(values, MOST_GROUPS) : values.map(worded);
  const rank = areNumbers ? correlation(ranks(values), ofCosts) : NaN;
  const found = explained(groups, ofCosts);
  // Groups of one explain everything, and mean nothing.
  const isSaid = Number.isFinite(found) && new Set(groups).size * 2 <= groups.length;
  return { size: isSaid ? found : null, rank: Number.isFinite(rank) ? -rank : null };
}

/** The parameters that differ among runs, the most important first. */
function parametersOf(columns, runs, cost) {
  const varied = columns.filter(column => column.isDifference && new Set(runs.map(run => worded(column.values[run]))).size > 1);
  const rated = varied.map(column => ({ column, ...importance(runs.map(run => column.values[run]), cost) }));
  return rated.sort((a, b) => (b.size ?? -1) - (a.size ?? -1));
}

/** The table of importance, which also says the best run's values. */
function importanceTable(parameters, best) {
  const effect = ({ rank }) => (rank == null ? "–" : `${rank > 0 ? "+" : ""}${rank.toFixed(2)}`);
  const bar = size => {
    const inner = html("span");
    inner.style.width = `${100 * (size ?? 0)}%`;
    return html("div", { class: "bar", "aria-hidden": "true" }, inner);
  };
  const row = parameter => html("tr", {}, html("th", { scope: "row" }, parameter.column.label),
    html("td", { class: "n" }, parameter.size == null ? "–" : parameter.size.toFixed(2)), html("td", { class: "bars" }, bar(parameter.size)),
    html("td", { class: "n" }, effect(parameter)), html("td", {}, brief(parameter.column.values[best])));
  const headings = ["Parameter", "Importance", "", "More is better", "In the best run"];
  return html("div", { class: "wide", tabindex: 0, role: "region", "aria-label": "Importance of parameters" },
    html("table", {}, html("caption", { class: "unseen" }, "Importance of parameters"),
      html("thead", {}, html("tr", {}, ...headings.map(text => (text ? html("th", { scope: "col" }, text) : html("td"))))),
      html("tbody", {}, ...parameters.map(row))));
}

/** An axis of parallel coordinates: where values are on it, from 0 at the bottom to 1, and its labels. */
function axis(values, isMetric) {
  const finite = values.filter(isNumber);
  if (finite.length && finite.length === values.filter(value => value != null && (!isMetric || isNumber(value))).length) {
    const [low, high] = [Math.min(...finite), Math.max(...finite)];
    const isLogarithmic = low > 0 && high / low >= 30;
    const level = isLogarithmic ? Math.log : value => value;
    const at = value => (high > low ? (level(value) - level(low)) / (level(high) - level(low)) : 0.5);
    return { at: value => (isNumber(value) ? at(value) : null), labels: [[0, shown(low)], [1, shown(high)]] };
  }
  const kinds = [...new Set(values.map(worded))].sort(new Intl.Collator(undefined, { numeric: true }).compare);
  const place = new Map(kinds.map((kind, index) => [kind, kinds.length > 1 ? index / (kinds.length - 1) : 0.5]));
  const labels = kinds.length > 12 ? [] : kinds.map(kind => [place.get(kind), kind]);
  return { at: value => place.get(worded(value)), labels };
}

const clipped = (text, length) => (text.length > length ? `${text.slice(0, length - 1)}…` : text);

/** A line for each run through its values; the better the run, the darker. */
function parallel(columns, runs, order) {
  const step = columns.length < 7 ? 190 : 150;
  const [width, height, top, bottom] = [step * columns.length, 320, 44, 290];
  const picture = svg("svg", { viewBox: `0 0 ${width} ${height}`, width, height, role: "img",
    "aria-label": `parallel coordinates of ${runs.length} runs over ${columns.map(column => column.label).join(", ")}` });
  const scales = columns.map((column, index) => axis(runs.map(run => column.values[run]), index === columns.length - 1));
  const x = index => step * (index + 0.5);
  // The best is drawn last, above all others.
  [...order].reverse().forEach((run, index) => {
    const points = scales.map(({ at }, column) => [x(column), at(columns[column].values[run])]);
    const path = points.filter(([, y]) => y != null).map(([x, y]) => `${x} ${(bottom - y * (bottom - top)).toFixed(1)}`).join("L");
    const share = order.length > 1 ? index / (order.length - 1) : 1;
    const quality = share === 1 ? "best" : share >= 0.9 ? "good" : share >= 0.5 ? "fair" : "poor";
    if (path) picture.append(svg("path", { class: `coordinate ${quality}`, d: `M${path}` }));
  });
  scales.forEach(({ labels }, index) => {
    picture.append(svg("line", { class: "rule", x1: x(index), x2: x(index), y1: top, y2: bottom }),
      svg("text", { x: x(index), y: 18, "text-anchor": "middle", class: "title" }, clipped(columns[index].label, 19),
        svg("title", {}, columns[index].label)));
    for (const [y, text] of labels)
      picture.append(svg("text", { x: x(index) + 6, y: bottom - y * (bottom - top) + (y === 0 ? 14 : y === 1 ? -5 : 4) }, clipped(text, 18)));
  });
  return html("div", { class: "wide", tabindex: 0, role: "region", "aria-label": "Parallel coordinates, can be scrolled" }, picture);
}

/** Draws both for the runs that are shown. */
function drawSweeps(columns, runs, metric) {
  const place = byId("sweeps");
  const say = text => place.replaceChildren(html("p", { class: "faint" }, text));
  if (!metric) return say("the runs have no metrics");
  const measured = runs.filter(run => metric.values[run] != null);
  const cost = costs(metric, measured);
  const parameters = parametersOf(columns, measured, cost);
  if (!parameters.length) return say("the manifests of these runs don't differ");
  const order = measured.map((run, index) => [run, cost[index]]).sort((a, b) => a[1] - b[1] || 0).map(([run]) => run);
  const axesOf = [...parameters.slice(0, MOST_AXES).map(({ column }) => column), metric];
  const few = measured.length < FEWEST_RUNS ? `Importance needs at least ${FEWEST_RUNS} runs. ` : "";
  place.replaceChildren(
    html("p", { class: "faint" }, `${few}Over ${measured.length} runs. Importance: the part of the variance of the metric's ranks that a `
      + `parameter alone explains (epsilon squared; numbers in up to ${MOST_GROUPS} groups). More is better: Spearman's rank correlation, from −1 to 1.`),
    importanceTable(parameters, order[0]), parallel(axesOf, measured, order));
}
