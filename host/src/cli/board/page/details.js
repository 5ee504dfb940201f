// One run: how it ended, its report, pictures, confusion matrices and manifest.

/** Of a file of a run: on the server, or what an exported page has of it. */
const addressOf = (run, { path, data }) =>
  data ?? `file/${[run, path].filter(Boolean).join("/").split("/").map(encodeURIComponent).join("/")}`;

function pairs(caption, entries) {
  const row = ([name, text]) => html("tr", {}, html("th", { scope: "row" }, name), html("td", {}, text));
  return html("table", { class: "pairs" }, html("caption", { class: "unseen" }, caption), html("tbody", {}, ...entries.map(row)));
}

/** A confusion matrix as a table, whose cells are the darker the larger part of their row they are. */
function confusionTable({ phase, classes, rows }) {
  const cell = (value, total, isRight) => {
    const found = html("td", { class: "n" }, shown(value));
    const share = total > 0 ? Math.round((45 * value) / total) : 0;
    found.style.background = `color-mix(in srgb, var(${isRight ? "--good" : "--bad"}) ${share}%, transparent)`;
    return found;
  };
  const row = (values, at) => {
    const total = values.reduce((sum, value) => sum + value, 0);
    return html("tr", {}, html("th", { scope: "row" }, classes[at]), ...values.map((value, column) => cell(value, total, column === at)));
  };
  const label = `Confusion matrix of ${phase}: true classes in rows, predicted ones in columns`;
  return html("figure", {}, html("figcaption", {}, `Confusion, ${phase}`),
    html("div", { class: "wide", tabindex: 0, role: "region", "aria-label": label },
      html("table", { class: "confusion" }, html("caption", { class: "faint" }, "rows: true; columns: predicted"),
        html("thead", {}, html("tr", {}, html("td"), ...classes.map(name => html("th", { scope: "col" }, name)))),
        html("tbody", {}, ...rows.map(row)))));
}

function picture(run, file) {
  const shown = html("img", { src: addressOf(run, file), alt: file.path, loading: "lazy" });
  return html("figure", {}, html("figcaption", {}, file.path), file.data ? shown : linked(run, file, shown));
}

const linked = (run, file, content) => html("a", { href: addressOf(run, file), target: "_blank", rel: "noopener" }, content);

/** A page of the run in a frame, in which its scripts don't run. */
function framed(run, file) {
  const place = html("details", { class: "framed" }, html("summary", {}, file.path));
  place.addEventListener("toggle", () => {
    if (!place.open || place.querySelector("iframe")) return;
    if (!file.data) place.append(html("p", {}, linked(run, file, "open it in a tab of its own")));
    place.append(html("iframe", { src: addressOf(run, file), title: file.path, sandbox: true }));
  });
  return place;
}

/** Shows the details of a run. */
function drawDetails(run, name, { facts, files, confusion, manifest }) {
  byId("details-heading").textContent = name;
  const of = kind => files.filter(file => file.kind === kind);
  const texts = of("text").map(file => html("li", {}, linked(run, file, file.path)));
  const entries = Object.entries(manifest).map(([path, value]) => [path, worded(value)]);
  byId("details-content").replaceChildren(
    pairs("How the run ended", [["directory", run || "."], ...facts]),
    ...of("page").map(file => framed(run, file)),
    html("div", { class: "charts" }, ...confusion.map(confusionTable), ...of("picture").map(file => picture(run, file))),
    texts.length ? html("details", {}, html("summary", {}, "Tables and logs"), html("ul", {}, ...texts)) : "",
    html("details", {}, html("summary", {}, "Manifest"), pairs("Manifest", entries)));
}
