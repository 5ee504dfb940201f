// Numbers for people, and what is computed of them.

/** A number in about five digits; texts that stand for one, such as `NaN`, stay. */
function shown(value) {
  if (value == null) return "–";
  if (typeof value !== "number") return String(value);
  const size = Math.abs(value);
  if (Number.isInteger(value) && size < 1e6) return String(value);
  return size < 1e-3 || size >= 1e6 ? value.toExponential(3) : String(Number(value.toPrecision(5)));
}

/** A number at an axis, which has little room. */
const short = value => {
  const size = Math.abs(value);
  const rounded = Number(value.toPrecision(3));
  return size !== 0 && (size < 1e-3 || size >= 1e5) ? Number(value.toPrecision(2)).toExponential() : String(rounded);
};

/** A time in seconds as `1:02:03`, or with a decimal if it is short. */
function duration(seconds) {
  if (seconds == null) return "–";
  if (seconds < 60) return `${seconds.toFixed(1)} s`;
  const two = number => String(number).padStart(2, "0");
  const whole = Math.round(seconds);
  return `${Math.floor(whole / 3600)}:${two(Math.floor(whole / 60) % 60)}:${two(whole % 60)}`;
}

/** A time since 1970 in seconds, as it was here. */
function moment(seconds) {
  if (seconds == null) return "–";
  const at = new Date(seconds * 1000);
  const two = number => String(number).padStart(2, "0");
  return `${at.getFullYear()}-${two(at.getMonth() + 1)}-${two(at.getDate())} ${two(at.getHours())}:${two(at.getMinutes())}`;
}

/** A value of a manifest with all its digits, and as it is shown. */
const worded = value => (value == null ? "–" : typeof value === "string" ? value : JSON.stringify(value));
const brief = value => (typeof value === "number" ? shown(value) : worded(value));

/** Exponential moving average, as if the first values had others like them before. NaN is a gap. */
function smoothed(values, weight) {
  if (weight === 0) return values;
  let sum = 0, mass = 0;
  return values.map(value => {
    if (!Number.isFinite(value)) return NaN;
    sum = sum * weight + (1 - weight) * value;
    mass = mass * weight + (1 - weight);
    return sum / mass;
  });
}

/** Ranks from 1; equal values share the mean of theirs. */
function ranks(values) {
  const order = values.map((_, index) => index).sort((a, b) => values[a] - values[b] || 0);
  const found = new Array(values.length);
  for (let start = 0; start < order.length; ) {
    let end = start;
    while (end < order.length && values[order[end]] === values[order[start]]) end += 1;
    for (let at = start; at < end; at += 1) found[order[at]] = (start + 1 + end) / 2;
    start = end;
  }
  return found;
}

const mean = values => values.reduce((sum, value) => sum + value, 0) / values.length;

/** Pearson's correlation; of ranks it is Spearman's. NaN if either is constant. */
function correlation(xs, ys) {
  const [mx, my] = [mean(xs), mean(ys)];
  let xy = 0, xx = 0, yy = 0;
  for (let i = 0; i < xs.length; i += 1) {
    xy += (xs[i] - mx) * (ys[i] - my);
    xx += (xs[i] - mx) ** 2;
    yy += (ys[i] - my) ** 2;
  }
  return xy / Math.sqrt(xx * yy);
}

/** The part of the variance of `ys` that groups of equal `xs` explain, less what as many groups would by chance (epsilon squared). */
function explained(xs, ys) {
  const groups = new Map();
  xs.forEach((x, i) => groups.set(x, [...(groups.get(x) ?? []), ys[i]]));
  const squares = values => values.reduce((sum, value) => sum + (value - mean(values)) ** 2, 0);
  const within = [...groups.values()].reduce((sum, group) => sum + squares(group), 0);
  return Math.max(0, 1 - (within / (ys.length - groups.size)) / (squares(ys) / (ys.length - 1)));
}

/** Numbers as groups of about equal size by their order, at most `most`, of four or more; those of few different values as they are. */
function grouped(xs, most) {
  if (new Set(xs).size <= most) return xs;
  const groups = Math.max(2, Math.min(most, Math.floor(xs.length / 4)));
  return ranks(xs).map(rank => Math.floor(((rank - 0.5) / xs.length) * groups));
}

/** Round values that divide a range. */
function ticks(low, high, most) {
  const rough = (high - low) / most || 1;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map(factor => factor * power).find(step => step >= rough) ?? rough;
  const found = [];
  for (let at = Math.ceil(low / step - 1e-9); at * step <= high + step * 1e-9; at += 1) found.push(at * step);
  return found;
}

/** Powers of ten in a range, and what divides it if there are fewer than two. */
function logarithmicTicks(low, high, most) {
  const [first, last] = [Math.ceil(Math.log10(low) - 1e-9), Math.floor(Math.log10(high) + 1e-9)];
  const every = Math.max(1, Math.ceil((last - first + 1) / most));
  const found = [];
  for (let power = first; power <= last; power += every) found.push(10 ** power);
  return found.length > 1 ? found : ticks(low, high, most).filter(tick => tick > 0);
}
