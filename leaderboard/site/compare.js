// Compares two rows. Their examples are in files next to the page and are loaded on demand.
const loaded = new Map();
window.ptmbenchExamples = (name, rows) => loaded.set(name, rows);

function load(file) {
  const name = file.replace(/^.*\//, "").replace(/\.js$/, "");
  if (loaded.has(name)) return Promise.resolve(loaded.get(name));
  return new Promise((resolve, reject) => {
    const script = element("script", undefined, { src: file });
    script.addEventListener("load", () => resolve(loaded.get(name) || []));
    script.addEventListener("error", () => reject(new Error(`${file} is missing next to this page. Copy the whole folder of the board.`)));
    document.head.append(script);
  });
}

function makeCompare() {
  const selects = ["first", "second"].map((id) => document.getElementById(id));
  for (const select of selects) for (const row of page.rows) select.append(element("option", row.title, { value: row.id }));
  const table = document.getElementById("differences");
  const show = () => {
    const [a, b] = selects.map((select) => page.rows.findIndex((row) => row.id === select.value));
    document.getElementById("examples").replaceChildren();
    table.original = null;
    table.tBodies[0].replaceChildren(...page.columns.map((column, i) => line(column, page.cells[a][i], page.cells[b][i])));
    sortBy(table, 0, 0);
  };
  const restore = (view) => {
    const known = new Set(page.rows.map((row) => row.id));
    selects[0].value = known.has(view.first) ? view.first : page.rows[0].id;
    selects[1].value = known.has(view.second) ? view.second : page.rows[Math.min(1, page.rows.length - 1)].id;
    show();
  };
  for (const select of selects) select.addEventListener("change", () => { show(); remember(select.id, select.value); });
  document.getElementById("compare").hidden = false;
  return restore;
}

function line(column, first, second) {
  const found = difference(first, second, page.seeds, page.t);
  const row = document.createElement("tr");
  const number = (value, signs) => (Number.isFinite(value) ? (signs && value > 0 ? "+" : "") + value.toFixed(column.decimals) : "");
  const cell = (text, value) => row.append(element("td", text, { class: "num", "data-v": Number.isFinite(value) ? value : "" }));
  row.append(element("th", column.title, { scope: "row", class: "name" }));
  cell(number(mean(first)), mean(first));
  cell(number(mean(second)), mean(second));
  cell(found ? number(found.mean, true) : "not in both", found ? found.mean : NaN);
  cell(found && Number.isFinite(found.low) ? `${number(found.low, true)} to ${number(found.high, true)}` : "", NaN);
  cell(found ? String(found.n) : "", found ? found.n : NaN);
  const better = found && (found.low > 0 || found.high < 0) ? (found.low > 0) === column.higher : null;
  row.append(element("td", !found ? "" : Number.isNaN(found.mean) ? "no number" : better === null ? (found.n > 1 ? "not separable" : "one seed") : better ? "first" : "second"));
  row.append(exampleButtons(column, first, second));
  return row;
}

function exampleButtons(column, first, second) {
  const cell = document.createElement("td");
  if (!first || !second || !first[2] || !second[2]) return cell;
  const shared = page.seeds[first[0]].filter((seed) => page.seeds[second[0]].includes(seed));
  for (const seed of shared) {
    const files = [first, second].map((one) => one[2][page.seeds[one[0]].indexOf(seed)]);
    if (!files.every(Boolean)) continue;
    const button = element("button", `seed ${seed}`, { type: "button", "aria-label": `Examples of ${column.title}, seed ${seed}` });
    button.addEventListener("click", () => showExamples(column, seed, files));
    cell.append(button);
  }
  return cell;
}

async function showExamples(column, seed, files) {
  const place = document.getElementById("examples");
  const [one, two] = ["first", "second"].map((id) => document.getElementById(id).selectedOptions[0].text);
  place.replaceChildren(element("h3", `${column.title}, seed ${seed}`, { tabindex: "-1" }), element("p", `First: ${one}. Second: ${two}.`));
  try {
    const [first, second] = await Promise.all(files.map(load));
    const found = contrast(column.form, first, second);
    const told = column.texts ? await load(column.texts).catch(() => undefined) : undefined; // without texts, ids remain
    const shown = (title, rows) => exampleTable(title, rows, column.form, told && told.texts ? told : undefined);
    const judged = found.both + found.neither.length + found.first.length + found.second.length;
    if (judged) {
      place.append(element("p", `Of ${judged} examples both are right on ${found.both}, neither on ${found.neither.length}, only the first on ${found.first.length}, only the second on ${found.second.length}.`));
      const share = pairedShare(found.first.length, found.second.length, judged);
      const [mean, low, high] = [share.mean, share.low, share.high].map((x) => (x > 0 ? "+" : "") + x.toFixed(1));
      place.append(element("p", `Share that is right, first minus second: ${mean} points, with a 95 % interval over examples of ${low} to ${high}, which treats examples as independent. It holds for these two trained models; it does not include the spread between seeds.`));
      place.append(shown("Only the first is right", found.first), shown("Only the second is right", found.second));
      place.append(shown("Neither is right", found.neither));
    } else place.append(shown(files[0] === files[1] ? "All answers" : "They answer differently", found.differ));
  } catch (error) {
    place.append(element("p", error.message, { class: "bad" }));
  }
  place.querySelector("h3").focus();
}

for (const table of document.querySelectorAll("table.sortable")) {
  makeSortable(table);
  makeExports(table);
}
for (const one of document.querySelectorAll("nav .script")) one.classList.remove("script");
const restorers = [makeFilters()];
if (page.rows.length) restorers.push(makeCompare());
restorers.push(makeTheme());
function restoreView() {
  const view = readState(location.hash);
  if (!view) return openTarget(decodeURIComponent(location.hash.slice(1)));
  for (const name of Object.keys(state)) delete state[name];
  Object.assign(state, view);
  for (const restore of restorers) restore(view);
  const sorted = /^(.+):(asc|desc)$/.exec(view.sort || "");
  const table = document.getElementById("score-table");
  const place = sorted ? Array.from(table.tHead.rows[0].cells).findIndex((head) => head.dataset.key === sorted[1]) : -1;
  if (place >= 0) sortBy(table, place, sorted[2] === "asc" ? 1 : -1);
  openTarget(view.at);
}
keepViewInLinks();
if (page.rows.length) restorers[1]({});
restoreView();
addEventListener("hashchange", restoreView);
