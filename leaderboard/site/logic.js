"use strict";
// What the page computes, without the page: called by board.js and compare.js, and under node by the tests.

// Blanks go last in both directions. Numbers before text; text as people sort it.
function compare(a, b, direction) {
  if (a === "" || b === "") return (a === "") - (b === "");
  const x = Number(a), y = Number(b);
  if (!Number.isNaN(x) && !Number.isNaN(y)) return direction * (x - y);
  return direction * String(a).localeCompare(String(b), "en", { numeric: true });
}

// A row is shown when it holds every word of the search and, for every filter that is set, the chosen value.
function matches(row, search, chosen) {
  const text = row.text.toLowerCase();
  const words = search.toLowerCase().split(/\s+/).filter(Boolean);
  if (!words.every((word) => text.includes(word))) return false;
  return Object.entries(chosen).every(([name, value]) => !value || (row.filters[name] || []).includes(value));
}

// The view in the address: only what differs from the page as it opens, so that "" is that page.
function writeState(state) {
  const parts = new URLSearchParams();
  for (const [name, value] of Object.entries(state)) if (value !== "" && value !== null) parts.set(name, value);
  return parts.toString().replaceAll("%3A", ":");
}

// An address with "=" is a view; without, it names a place on the page.
function readState(hash) {
  const text = hash.replace(/^#/, "");
  return text.includes("=") ? Object.fromEntries(new URLSearchParams(text)) : null;
}

// First minus second over the seeds that both have: mean and Student's t interval (t: 97.5 % quantiles by freedom). A
// seed whose score is no number (null) leaves none: without it a diverged model would be the better for that. Of several
// pre-trainings the means are compared; a fourth entry [variance, freedom] is of the spread between them, and is added,
// with degrees of freedom after Satterthwaite, rounded down. A fourth entry 0 is of a single pre-training: it is taken to
// have the other side's spread (leaderboard.stats.difference).
function difference(first, second, seeds, t) {
  if (!first || !second) return null;
  const theirs = new Map(seeds[second[0]].map((seed, i) => [seed, second[1][i]]));
  const values = seeds[first[0]]
    .map((seed, i) => [first[1][i], theirs.get(seed)])
    .filter(([, b]) => b !== undefined)
    .map(([a, b]) => (a === null || b === null ? NaN : a - b));
  const n = values.length;
  if (!n) return null;
  const mean = values.reduce((sum, x) => sum + x, 0) / n;
  if (n === 1) return { n, mean, low: NaN, high: NaN };
  const variance = values.reduce((sum, x) => sum + (x - mean) ** 2, 0) / (n - 1);
  const known = [first[3], second[3]].filter(Boolean);
  const alone = known.length === 1 && (first[3] === 0 || second[3] === 0);
  const parts = alone ? [[known[0][0] === null ? null : known[0][0] * (known[0][1] + 2), known[0][1]]] : [[variance / n, n - 1], ...known];
  const total = parts.reduce((sum, [part]) => sum + (part === null ? NaN : part), 0);
  const squares = parts.reduce((sum, [part, freedom]) => sum + part ** 2 / freedom, 0);
  const freedom = squares > 0 ? Math.floor(total ** 2 / squares + 1e-9) : n - 1;
  const half = t[Math.min(freedom, t.length) - 1] * Math.sqrt(total);
  return { n, mean, low: mean - half, high: mean + half };
}

// How many seeds a cell has, and the standard deviation over them; over pre-trainings where there are several.
function spread(cell) {
  if (cell[3]) return { seeds: cell[3][1] + 1, sd: cell[3][0] === null ? NaN : Math.sqrt(cell[3][0] * (cell[3][1] + 1)) };
  const values = cell[1], n = values.length, middle = mean(cell);
  return { seeds: n, sd: n > 1 ? Math.sqrt(values.reduce((sum, x) => sum + (x - middle) ** 2, 0) / (n - 1)) : NaN };
}

function mean(cell) {
  return cell && cell[1].every(Number.isFinite) ? cell[1].reduce((sum, x) => sum + x, 0) / cell[1].length : NaN;
}

// Whether a prediction is right, null where a task has no right and wrong (a number, a text, a likelihood).
function right(form, gold, prediction) {
  const same = (a, b) => JSON.stringify(a) === JSON.stringify(b);
  if (["classification", "choice", "tagging", "few_shot"].includes(form)) return same(gold, prediction);
  if (form !== "span" || !Array.isArray(gold)) return null;
  const flat = (text) => String(text).toLowerCase().replace(/[^\p{L}\p{N}\s]/gu, "").replace(/\b(a|an|the)\b/g, " ").replace(/\s+/g, " ").trim();
  const text = (answer) => flat(Array.isArray(answer) ? answer[0] : answer && answer.text !== undefined ? answer.text : answer);
  return gold.length ? gold.some((answer) => text(answer) === text(prediction)) : text(prediction) === "";
}

// Two sides' examples [id, gold, prediction] by who is right; without right and wrong, those that differ (of one side
// beside itself, all).
function contrast(form, first, second) {
  const others = new Map(second.map((row) => [JSON.stringify(row[0]), row]));
  const found = { both: 0, neither: [], first: [], second: [], differ: [] };
  for (const [id, gold, prediction] of first) {
    const other = others.get(JSON.stringify(id));
    if (!other) continue;
    const row = { id, gold, first: prediction, second: other[2] };
    const a = right(form, gold, prediction), b = right(form, gold, other[2]);
    if (a === null || b === null) {
      if (first === second || JSON.stringify(prediction) !== JSON.stringify(other[2])) found.differ.push(row);
    } else if (a && b) found.both += 1;
    else if (!a && !b) found.neither.push(row);
    else found[a ? "first" : "second"].push(row);
  }
  return found;
}

// The same examples, answered by both: difference of the shares that are right, in points, with its 95 % interval over
// examples, after one more on which only the first is right and one for the second (Bonett and Price, 2012): without
// them few examples on which both agree would seem to prove that they always do.
function pairedShare(first, second, examples) {
  const a = (first + 1) / (examples + 2), b = (second + 1) / (examples + 2);
  const half = 1.959964 * Math.sqrt((a + b - (a - b) ** 2) / (examples + 2));
  return { mean: (100 * (first - second)) / examples, low: 100 * (a - b - half), high: 100 * (a - b + half) };
}

// Invisible and reordering characters spelled out, one line.
function plain(text) {
  return String(text).replace(/\s+/g, " ").replace(/[\p{C}]/gu, (one) => `\\u${one.codePointAt(0).toString(16).padStart(4, "0")}`).trim();
}

// A table {heads, rows} as text. No cell can start a formula, leave its place or become a command.
const exporters = {
  csv: (table) => {
    const number = /^[+-]?\d+(\.\d+)?( ± \d+(\.\d+)?)?$/;
    const cell = (value) => {
      const text = plain(value);
      const safe = /^\s*[=+\-@]/.test(text.normalize("NFKC")) && !number.test(text) ? `'${text}` : text;
      return /[",\n;]/.test(safe) ? `"${safe.replace(/"/g, '""')}"` : safe;
    };
    return [table.heads, ...table.rows].map((row) => row.map(cell).join(",")).join("\n") + "\n";
  },
  json: (table) => {
    const heads = table.heads.map(plain).map((head, i, all) => (all.indexOf(head) === i ? head : `${head} (${i + 1})`));
    const value = (text, i) => (!(table.numbers || []).includes(i) ? plain(text) : text === "" ? null : Number(text));
    return JSON.stringify(table.rows.map((row) => Object.fromEntries(row.map((text, i) => [heads[i], value(text, i)]))), null, 1) + "\n";
  },
  markdown: (table) => {
    const names = { "<": "&lt;", ">": "&gt;", "&": "&amp;" };
    const cell = (value) => plain(value).replace(/[\\`*_{}[\]<>|#~&$!]/g, (one) => names[one] || `\\${one}`);
    const line = (row) => `| ${row.map(cell).join(" | ")} |\n`;
    return line(table.heads) + `|${table.heads.map(() => "---").join("|")}|\n` + table.rows.map(line).join("");
  },
  latex: (table) => {
    const names = { "\\": "\\textbackslash{}", "~": "\\textasciitilde{}", "^": "\\textasciicircum{}", "<": "\\textless{}", ">": "\\textgreater{}",
      "|": "\\textbar{}", '"': "\\textquotedbl{}", "`": "\\textasciigrave{}", "±": "$\\pm$", "–": "--", "·": "$\\cdot$" };
    const cell = (value) => {
      const text = plain(value).replace(/[\\~^<>|"`±–·&%$#_{}]/g, (one) => names[one] || `\\${one}`);
      return /^[[*]/.test(text) ? `{${text}}` : text;
    };
    const line = (row) => `${row.map(cell).join(" & ")} \\\\\n`;
    return `\\begin{tabular}{${"l".repeat(table.heads.length)}}\n\\toprule\n${line(table.heads)}\\midrule\n${table.rows.map(line).join("")}\\bottomrule\n\\end{tabular}\n`;
  },
};

if (typeof document === "undefined") module.exports = { compare, matches, writeState, readState, difference, mean, spread, right, contrast, pairedShare, plain, exporters };
