// Elements. Texts are always set as texts: what a run is called is never markup.

const byId = id => document.getElementById(id);

/** Fills an element with attributes, listeners (`onclick`) and children, which are elements or texts. */
function filled(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (value === true) element.setAttribute(name, "");
    else if (value !== false && value != null) element.setAttribute(name, value);
  }
  element.append(...children.filter(child => child != null));
  return element;
}

/** A new element of HTML. */
const html = (name, attributes = {}, ...children) => filled(document.createElement(name), attributes, children);

/** A new element of SVG. */
const svg = (name, attributes = {}, ...children) =>
  filled(document.createElementNS("http://www.w3.org/2000/svg", name), attributes, children);

/** Makes the options of a `select`, and keeps what was chosen if it is still there. */
function offer(select, options) {
  const before = select.value;
  select.replaceChildren(...options.map(([value, text]) => html("option", { value }, text)));
  if (options.some(([value]) => value === before)) select.value = before;
}

/** Calls `act` when nothing more urgent is to be done; calls before that count as one. */
function later(act) {
  let waiting = 0;
  return () => {
    clearTimeout(waiting);
    waiting = setTimeout(act, 30);
  };
}

/** Number of colours of lines, which then repeat with other dashes: the style sheet's `s0` to `s6`. */
const COLOURS = 7;
const DASHES = ["", "7 4", "2 3", "10 3 2 3"];
const colourOf = index => `s${index % COLOURS}`;
const dashOf = index => DASHES[Math.floor(index / COLOURS) % DASHES.length];
