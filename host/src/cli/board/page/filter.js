// The filter: words that a run must have, and conditions such as `val/loss<0.3` and `state=completed`, all of which must hold.

const CONDITION = /^(.+?)(<=|>=|!=|<|>|=)(.*)$/;

/** The column that a name means: its key, or the one key that ends with it. */
function columnNamed(columns, name) {
  const wanted = name.toLowerCase();
  const keyed = key => columns.find(column => column.key.toLowerCase() === key);
  const ends = columns.filter(column => /[/.]/.test(column.key) && column.key.toLowerCase().split(/[/.]/).at(-1) === wanted);
  return keyed(wanted) ?? ends.find(column => column.key.startsWith("val/")) ?? ends[0];
}

const COMPARISONS = {
  "<": (a, b) => a < b,
  ">": (a, b) => a > b,
  "<=": (a, b) => a <= b,
  ">=": (a, b) => a >= b,
  "=": (a, b) => a === b,
  "!=": (a, b) => a !== b,
};

/** A condition as a function of a run's index. */
function condition(column, sign, text) {
  const compare = COMPARISONS[sign];
  const number = Number(text);
  return run => {
    const value = column.values[run];
    if (text !== "" && Number.isFinite(number) && typeof value === "number") return compare(value, number);
    if (sign === "=" || sign === "!=") return compare(worded(value).toLowerCase(), text.toLowerCase());
    return false;
  };
}

/** Reads a filter; returns functions of a run's index, and what is wrong with it in words. */
function parseFilter(text, columns, textOf) {
  const tests = [];
  let problem = "";
  for (const term of text.match(/(?:[^\s"]|"[^"]*")+/g) ?? []) {
    const plain = term.replaceAll('"', "");
    const [, name, sign, value] = plain.match(CONDITION) ?? [];
    if (!name) {
      const word = plain.toLowerCase();
      tests.push(run => textOf(run).includes(word));
      continue;
    }
    const column = columnNamed(columns, name);
    if (column) tests.push(condition(column, sign, value));
    else problem = `there is no column “${name}”; columns are called, for example, ${columns.slice(2, 9).map(c => c.key).join(", ")}`;
  }
  return { matches: run => tests.every(test => test(run)), problem };
}
