// Curves of the chosen runs, one chart for each metric. The pointer, or the arrow keys in a chart, read values.

const WIDTH = 520, HEIGHT = 300, LEFT = 64, RIGHT = 10, TOP = 10, BOTTOM = 36;

/** A scale from values to pixels; none if there is nothing to show. */
function scale(values, isLogarithmic, from, to) {
  let low = Infinity, high = -Infinity;
  for (const value of values) {
    if (!Number.isFinite(value) || (isLogarithmic && value <= 0)) continue;
    low = Math.min(low, value);
    high = Math.max(high, value);
  }
  if (low > high) return null;
  if (low === high) [low, high] = isLogarithmic ? [low / 2, high * 2] : [low - (Math.abs(low) / 10 || 1), high + (Math.abs(high) / 10 || 1)];
  const level = isLogarithmic ? Math.log : value => value;
  const [start, length] = [level(low), level(high) - level(low)];
  const at = value => from + ((level(value) - start) / length) * (to - from);
  const marks = isLogarithmic ? logarithmicTicks(low, high, 6) : ticks(low, high, 6);
  return { at: value => (isLogarithmic && value <= 0 ? NaN : at(value)), marks };
}

/** A path through points, with gaps where there is no number. A point alone is a dot. */
function line(xs, ys, horizontal, vertical) {
  let path = "", isOpen = false;
  for (let i = 0; i < xs.length; i += 1) {
    const [x, y] = [horizontal.at(xs[i]), vertical.at(ys[i])];
    if (!Number.isFinite(x) || !Number.isFinite(y)) {
      isOpen = false;
      continue;
    }
    path += `${isOpen ? "L" : "M"}${x.toFixed(1)} ${y.toFixed(1)}`;
    const isAlone = !isOpen && !(i + 1 < xs.length && Number.isFinite(ys[i + 1]));
    if (isAlone) path += "h0.01";
    isOpen = true;
  }
  return path;
}

/** Axes with their labels. */
function axes(horizontal, vertical, over) {
  const bottom = HEIGHT - BOTTOM;
  const group = svg("g", { class: "axes" });
  for (const mark of vertical.marks) {
    const y = vertical.at(mark);
    group.append(svg("line", { x1: LEFT, x2: WIDTH - RIGHT, y1: y, y2: y }),
      svg("text", { x: LEFT - 6, y: y + 4, "text-anchor": "end" }, short(mark)));
  }
  for (const mark of horizontal.marks) {
    const x = horizontal.at(mark);
    group.append(svg("line", { x1: x, x2: x, y1: bottom, y2: bottom + 4 }),
      svg("text", { x: Math.min(x, WIDTH - 16), y: bottom + 17, "text-anchor": "middle" }, short(mark)));
  }
  group.append(svg("text", { x: (LEFT + WIDTH - RIGHT) / 2, y: HEIGHT - 4, "text-anchor": "middle" }, over));
  return group;
}

/** The index of the point that is next to a place. */
function nearest(xs, place) {
  let best = 0;
  for (let i = 1; i < xs.length; i += 1) if (Math.abs(xs[i] - place) < Math.abs(xs[best] - place)) best = i;
  return best;
}

/** A chart of series `{name, index, xs, ys}`. */
function chart(title, series, { smoothing, over, logX, logY }) {
  const drawn = series.map(one => ({ ...one, smooth: smoothed(one.ys, smoothing) }));
  const horizontal = scale(drawn.flatMap(one => one.xs), logX, LEFT, WIDTH - RIGHT);
  const vertical = scale(drawn.flatMap(one => one.ys), logY, HEIGHT - BOTTOM, TOP);
  const figure = html("figure", {}, html("figcaption", {}, title));
  if (!horizontal || !vertical) {
    figure.append(html("p", { class: "faint" }, logX || logY ? "no values above 0" : "no values"));
    return figure;
  }
  const picture = svg("svg", { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, role: "img", tabindex: 0,
    "aria-label": `${title} of ${series.length} runs over ${over}s; arrow keys read values` });
  picture.append(axes(horizontal, vertical, over));
  for (const { index, xs, ys, smooth } of drawn) {
    const style = { class: `line ${colourOf(index)}`, "stroke-dasharray": dashOf(index) || null };
    if (smoothing > 0) picture.append(svg("path", { ...style, class: `${style.class} raw`, d: line(xs, ys, horizontal, vertical) }));
    picture.append(svg("path", { ...style, d: line(xs, smooth, horizontal, vertical) }));
  }
  figure.append(picture, readings(picture, drawn, horizontal, over));
  return figure;
}

/** The values at a place, which the pointer or the arrow keys choose. */
function readings(picture, series, horizontal, over) {
  const output = html("p", { class: "readings", "aria-live": "polite" });
  const cursor = svg("line", { class: "cursor", y1: TOP, y2: HEIGHT - BOTTOM, visibility: "hidden" });
  picture.append(cursor);
  const places = [...new Set(series.flatMap(one => one.xs))].sort((a, b) => a - b);
  let at = -1;
  const show = index => {
    at = Math.max(0, Math.min(places.length - 1, index));
    const x = horizontal.at(places[at]);
    if (!Number.isFinite(x)) return;
    filled(cursor, { x1: x, x2: x, visibility: "visible" }, []);
    const values = series.slice(0, 12).map(({ name, index, xs, ys }) =>
      html("span", { class: `reading` }, html("span", { class: `key ${colourOf(index)}` }), `${name} ${shown(ys[nearest(xs, places[at])])}`));
    output.replaceChildren(`${over} ${places[at]}: `, ...values);
  };
  picture.addEventListener("pointermove", event => {
    const box = picture.getBoundingClientRect();
    const pixel = ((event.clientX - box.left) / box.width) * WIDTH;
    show(nearest(places.map(horizontal.at), pixel));
  });
  picture.addEventListener("keydown", event => {
    const by = { ArrowLeft: -1, ArrowRight: 1, PageUp: -10, PageDown: 10, Home: -places.length, End: places.length }[event.key];
    if (!by) return;
    event.preventDefault();
    show(at < 0 ? (by > 0 ? 0 : places.length - 1) : at + by);
  });
  return output;
}

/** Metrics in the order of their charts: of validation first. */
function metricsOf(curves) {
  const names = new Set(curves.flatMap(of => Object.keys(of)));
  const phase = name => ["val", "train", "test"].indexOf(name.split("/")[0]);
  return [...names].sort((a, b) => phase(a) - phase(b) || a.localeCompare(b));
}

/** Draws all charts of runs `{name, index, curves}`. */
function drawCharts(runs, options) {
  byId("legend").replaceChildren(...runs.map(({ name, index }) =>
    html("li", {}, svg("svg", { viewBox: "0 0 24 8", class: "sample", "aria-hidden": "true" },
      svg("path", { class: `line ${colourOf(index)}`, "stroke-dasharray": dashOf(index) || null, d: "M0 4H24" })), name)));
  const figures = metricsOf(runs.map(run => run.curves)).map(metric => {
    const series = runs.filter(run => run.curves[metric]).map(({ name, index, curves }) =>
      ({ name, index, xs: curves[metric][options.over], ys: curves[metric].value.map(value => value ?? NaN) }));
    return chart(metric, series, options);
  });
  const nothing = runs.length ? "the chosen runs have no tables by epoch: the hook csv writes them" : "choose runs in the table to draw them";
  byId("charts").replaceChildren(...(figures.length ? figures : [html("p", { class: "faint" }, nothing)]));
}
