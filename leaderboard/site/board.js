"use strict";
// The page is complete without this script: it only sorts, filters and saves what is there already.

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

function cellValue(row, index) {
  const cell = row.cells[index];
  return cell.dataset.value !== undefined ? cell.dataset.value : cell.textContent.trim();
}

function makeSortable(table) {
  const body = table.tBodies[0];
  const original = Array.from(body.rows);
  Array.from(table.tHead.rows[0].cells).forEach((head, index) => {
    if (head.tagName !== "TH") return;
    const button = document.createElement("button");
    button.type = "button";
    const label = document.createElement("span");
    const smalls = Array.from(head.querySelectorAll("small"));
    while (head.firstChild) (smalls.includes(head.firstChild) ? button : label).append(head.firstChild);
    button.prepend(label);
    head.append(button);
    button.addEventListener("click", () => {
      // numbers start with the largest, names with the first; the third click restores the order of the page
      const first = head.classList.contains("num") ? "descending" : "ascending";
      const second = first === "descending" ? "ascending" : "descending";
      const now = head.getAttribute("aria-sort");
      const next = now === null ? first : now === first ? second : null;
      for (const other of table.tHead.rows[0].cells) other.removeAttribute("aria-sort");
      if (next) head.setAttribute("aria-sort", next);
      const direction = next === "descending" ? -1 : 1;
      const rows = next ? original.map((row) => [cellValue(row, index), row]).sort((a, b) => compare(a[0], b[0], direction)).map((pair) => pair[1]) : original;
      body.append(...rows);
    });
  });
}

function makeFilters() {
  const controls = document.getElementById("controls");
  const search = document.getElementById("search");
  const selects = Array.from(controls.querySelectorAll("select[data-filter]"));
  const rows = Array.from(document.querySelectorAll("#score-table tbody tr")).map((element) => {
    const filters = JSON.parse(element.dataset.filters);
    return { element, filters, text: [element.dataset.search, ...Object.values(filters).flat()].join(" ") };
  });
  const count = document.getElementById("count");
  const apply = () => {
    const chosen = Object.fromEntries(selects.map((select) => [select.dataset.filter, select.value]));
    const shown = rows.filter((row) => {
      row.element.hidden = !matches(row, search.value, chosen);
      return !row.element.hidden;
    });
    const hidden = new Set(rows.filter((row) => row.element.hidden).map((row) => row.element.id));
    for (const element of document.querySelectorAll("[data-of]")) element.hidden = hidden.has(element.dataset.of);
    count.hidden = shown.length === rows.length;
    count.textContent = `${shown.length} of ${rows.length} rows shown`;
  };
  search.addEventListener("input", apply);
  for (const select of selects) select.addEventListener("change", apply);
  document.getElementById("reset").addEventListener("click", () => {
    controls.reset();
    apply();
  });
  controls.addEventListener("submit", (event) => event.preventDefault());
  controls.hidden = false;
}

function makeExports() {
  const exports = JSON.parse(document.getElementById("exports").textContent);
  for (const button of document.querySelectorAll("button[data-export]")) {
    button.addEventListener("click", () => {
      const link = document.createElement("a");
      // the byte order mark makes spreadsheets read the ± as UTF-8
      link.href = URL.createObjectURL(new Blob(["\ufeff", exports[button.dataset.export]], { type: "text/csv" }));
      link.download = `ptmbench-${button.dataset.export}.csv`;
      link.click();
      setTimeout(() => URL.revokeObjectURL(link.href), 1000);
    });
  }
}

function makeTheme() {
  document.getElementById("theme").addEventListener("click", () => {
    const root = document.documentElement;
    const dark = root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
    root.dataset.theme = dark ? "light" : "dark";
  });
}

// A link to a cell opens the block that holds it.
function openTarget() {
  const target = location.hash.length > 1 && document.getElementById(decodeURIComponent(location.hash.slice(1)));
  const block = target && target.closest("details");
  if (!block) return;
  block.open = true;
  target.scrollIntoView({ block: "center" });
}

if (typeof document !== "undefined") {
  for (const table of document.querySelectorAll("table.sortable")) makeSortable(table);
  makeFilters();
  makeExports();
  makeTheme();
  addEventListener("hashchange", openTarget);
  addEventListener("beforeprint", () => {
    for (const block of document.querySelectorAll("details")) block.open = true;
  });
  openTarget();
} else {
  module.exports = { compare, matches };
}
