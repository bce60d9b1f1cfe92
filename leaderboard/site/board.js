// The page is complete without this script: it sorts, filters, links and saves what is there already.
const page = JSON.parse(document.getElementById("data").textContent);

function element(name, text, attributes) {
  const made = document.createElement(name);
  if (text !== undefined) made.textContent = text;
  for (const [key, value] of Object.entries(attributes || {})) made.setAttribute(key, value);
  return made;
}

function cellValue(row, index) {
  const cell = row.cells[index];
  return cell.dataset.v !== undefined ? cell.dataset.v : cell.textContent.trim();
}

function sortBy(table, index, direction) {
  const heads = Array.from(table.tHead.rows[0].cells);
  for (const head of heads) head.removeAttribute("aria-sort");
  const body = table.tBodies[0];
  if (!table.original) table.original = Array.from(body.rows);
  if (!direction) return body.append(...table.original);
  heads[index].setAttribute("aria-sort", direction === 1 ? "ascending" : "descending");
  const pairs = table.original.map((row) => [cellValue(row, index), row]);
  body.append(...pairs.sort((a, b) => compare(a[0], b[0], direction)).map((pair) => pair[1]));
}

function makeSortable(table) {
  Array.from(table.tHead.rows[0].cells).forEach((head, index) => {
    if (head.tagName !== "TH") return;
    const button = element("button", undefined, { type: "button" });
    const label = document.createElement("span");
    const smalls = Array.from(head.querySelectorAll("small"));
    while (head.firstChild) (smalls.includes(head.firstChild) ? button : label).append(head.firstChild);
    button.prepend(label);
    head.append(button);
    button.addEventListener("click", () => {
      // numbers start with the largest, names with the first; the third click restores the order of the page
      const first = head.classList.contains("num") ? -1 : 1;
      const now = { ascending: 1, descending: -1 }[head.getAttribute("aria-sort")] || 0;
      const next = now === 0 ? first : now === first ? -first : 0;
      sortBy(table, index, next);
      if (table.id === "score-table") remember("sort", next ? `${head.dataset.key}:${next === 1 ? "asc" : "desc"}` : "");
    });
  });
}

// Links from a table to a file: what is shown, in the order in which it is shown.
function makeExports(table) {
  const line = element("p", "Save as ", { class: "saves" });
  for (const kind of Object.keys(exporters)) {
    const button = element("button", { csv: "CSV", json: "JSON", markdown: "Markdown", latex: "LaTeX" }[kind], { type: "button" });
    button.addEventListener("click", () => save(`ptmbench-${table.dataset.name}`, kind, exporters[kind]((longOf[kind] && table.id === "score-table" ? longTable : tableOf)(table))));
    line.append(button);
  }
  table.closest(".scroll").after(line);
}

// For spreadsheets and programs the scores have a line for each cell that is shown, and numbers in columns of their own.
const longOf = { csv: true, json: true };

function longTable(table) {
  const heads = Array.from(table.tHead.rows[0].cells);
  const places = page.columns.map((column) => heads.findIndex((head) => head.dataset.key === column.key && !head.hidden));
  const rows = [];
  for (const row of Array.from(table.tBodies[0].rows).filter((one) => !one.hidden)) {
    const found = page.cells[page.rows.findIndex((one) => one.id === row.id)];
    const [label, words] = [row.cells[0].querySelector("bdi").textContent, row.cells[0].querySelector("small").textContent];
    page.columns.forEach((column, i) => {
      if (places[i] < 0 || !found[i]) return;
      const [low, high] = [row.cells[places[i]].dataset.low, row.cells[places[i]].dataset.high];
      const { seeds, sd } = spread(found[i]);
      const digits = (value) => (Number.isFinite(value) ? String(Number(value.toFixed(column.decimals + 2))) : "");
      rows.push([label, words, column.name, column.metric, String(seeds), digits(mean(found[i])), digits(sd), low || "", high || ""]);
    });
  }
  return { heads: ["model", "row", "task", "metric", "seeds", "mean", "sd", "low", "high"], rows, numbers: [4, 5, 6, 7, 8] };
}

function tableOf(table) {
  const texts = (cell) => {
    const copy = cell.cloneNode(true);
    for (const small of copy.querySelectorAll("small")) small.prepend(" ");
    return copy.textContent.replace(/\s+/g, " ").trim();
  };
  const kept = Array.from(table.tHead.rows[0].cells).flatMap((head, i) => (head.tagName === "TH" && !head.hidden ? [i] : []));
  const rows = Array.from(table.tBodies[0].rows).filter((row) => !row.hidden);
  return { heads: kept.map((i) => texts(table.tHead.rows[0].cells[i])), rows: rows.map((row) => kept.map((i) => texts(row.cells[i]))) };
}

function save(name, kind, text) {
  const link = document.createElement("a");
  const ends = { csv: "csv", json: "json", markdown: "md", latex: "tex" };
  // the byte order mark makes spreadsheets read the file as UTF-8
  link.href = URL.createObjectURL(new Blob([kind === "csv" ? "\ufeff" : "", text], { type: "text/plain" }));
  link.download = `${name}.${ends[kind]}`;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 1000);
}

// A column without a number in any shown row says nothing.
function hideBlankColumns(table) {
  const rows = Array.from(table.tBodies[0].rows);
  const shown = rows.filter((row) => !row.hidden);
  Array.from(table.tHead.rows[0].cells).forEach((head, i) => {
    const blank = i > 0 && shown.length > 0 && shown.every((row) => row.cells[i].dataset.v === "");
    for (const row of [table.tHead.rows[0], ...rows]) row.cells[i].hidden = blank;
  });
}

function makeFilters() {
  const controls = document.getElementById("controls");
  const search = document.getElementById("search");
  const selects = Array.from(controls.querySelectorAll("select[data-filter]"));
  const rows = Array.from(document.querySelectorAll("#score-table tbody tr")).map((row) => {
    const filters = JSON.parse(row.dataset.filters);
    return { element: row, filters, text: [row.dataset.search, ...Object.values(filters).flat()].join(" ") };
  });
  const count = document.getElementById("count");
  const apply = () => {
    const chosen = Object.fromEntries(selects.map((select) => [select.dataset.filter, select.value]));
    const hidden = new Set();
    for (const row of rows) {
      row.element.hidden = !matches(row, search.value, chosen);
      if (row.element.hidden) hidden.add(row.element.id);
    }
    for (const one of document.querySelectorAll("[data-of]")) one.hidden = hidden.has(one.dataset.of);
    hideBlankColumns(document.getElementById("score-table"));
    count.hidden = !hidden.size;
    count.textContent = `${rows.length - hidden.size} of ${rows.length} rows shown`;
  };
  const restore = (view) => {
    search.value = view.search || "";
    for (const select of selects) {
      select.value = view[select.dataset.filter] || "";
      if (select.selectedIndex < 0) select.value = "";
    }
    apply();
  };
  search.addEventListener("input", () => { apply(); remember("search", search.value); });
  for (const select of selects) select.addEventListener("change", () => { apply(); remember(select.dataset.filter, select.value); });
  document.getElementById("reset").addEventListener("click", () => {
    for (const name of Object.keys(state)) if (name !== "theme") delete state[name];
    remember("search", "");
    restore({});
    sortBy(document.getElementById("score-table"), 0, 0);
  });
  controls.addEventListener("submit", (event) => event.preventDefault());
  controls.hidden = false;
  return restore;
}

function makeTheme() {
  document.getElementById("theme").addEventListener("click", () => {
    const root = document.documentElement;
    const dark = root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
    root.dataset.theme = dark ? "light" : "dark";
    remember("theme", root.dataset.theme);
  });
  return showTheme;
}
