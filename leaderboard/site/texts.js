// Examples in words: labels by their names, tags and spans in colour on the text.
const words = (value) => plain(typeof value === "string" ? value : JSON.stringify(value));

// Kinds of tags have the colours of lines, in the order in which they are first seen; the tag itself stands as text.
const tagKinds = [];

function tagColour(tag) {
  const kind = tag.replace(/^[BIES]-/, "");
  if (!tagKinds.includes(kind)) tagKinds.push(kind);
  return `k${tagKinds.indexOf(kind) % 8}`;
}

function taggedText(inputs, tags, gold) {
  const line = element("bdi", undefined, { class: "tagged" });
  inputs.forEach((word, i) => {
    const tag = String(tags[i]);
    const wrong = Array.isArray(gold) && String(gold[i]) !== tag ? " wrong" : "";
    if (tag === "O" && !wrong) line.append(plain(word));
    else {
      const marked = element("span", plain(word), { class: tag === "O" ? `tag none${wrong}` : `tag ${tagColour(tag)}${wrong}` });
      marked.append(" ", element("small", plain(tag)));
      line.append(marked);
    }
    line.append(" ");
  });
  return line;
}

// The answers of a span task: texts of gold, or one text.
function spansOf(value) {
  if (typeof value === "string") return value ? [value] : [];
  if (!Array.isArray(value)) return value && typeof value.text === "string" ? [value.text] : [];
  return [...new Set(value.map((one) => (Array.isArray(one) ? one[0] : one)).filter((one) => typeof one === "string" && one))];
}

function markedText(text, spans) {
  const line = element("bdi");
  const shown = plain(text);
  const first = spans.map((span) => plain(span)).map((span) => [shown.indexOf(span), span.length]).find(([at, length]) => at >= 0 && length);
  if (!first) line.append(shown);
  else line.append(shown.slice(0, first[0]), element("mark", shown.slice(first[0], first[0] + first[1])), shown.slice(first[0] + first[1]));
  return line;
}

function shownText(form, inputs, gold) {
  const block = element("div", undefined, { class: "example-text" });
  if (form === "tagging" || form === "pointing") block.append(element("bdi", plain(inputs.join(" "))));
  else inputs.forEach((text, i) => {
    const line = element("p");
    line.append(form === "span" && i ? markedText(text, spansOf(gold)) : element("bdi", plain(text)));
    block.append(line);
  });
  return block;
}

function shownAnswer(form, inputs, value, gold, told) {
  if (inputs && form === "tagging" && Array.isArray(value) && value.length === inputs.length) return taggedText(inputs, value, gold);
  if (told && form === "span") return element("bdi", spansOf(value).map(plain).join(" / ") || words(value));
  if (inputs && form === "choice" && Number.isInteger(value) && value + 1 < inputs.length) return element("bdi", plain(inputs[value + 1]));
  const name = told && typeof value === "string" && Object.hasOwn(told.labels, value) ? told.labels[value] : undefined;
  const shown = element("bdi", name === undefined ? words(value) : plain(name));
  if (name !== undefined && name !== value) shown.append(element("small", words(value)));
  return shown;
}

const MOST = 200;

function exampleTable(title, rows, form, told) {
  const block = element("details", undefined, { class: "sheet", open: "" });
  const some = rows.length > MOST ? `, the first ${MOST} of them here` : "";
  block.append(element("summary", `${title}: ${rows.length} examples${some}`));
  const table = document.createElement("table");
  const head = table.createTHead().insertRow();
  for (const text of ["Example", ...(told ? ["Text"] : []), "Gold", "First", "Second"]) head.append(element("th", text, { scope: "col" }));
  const body = table.createTBody();
  for (const row of rows.slice(0, MOST)) {
    const line = body.insertRow();
    line.append(element("th", words(row.id), { scope: "row" }));
    const inputs = told && told.texts[row.id];
    if (told) line.insertCell().append(inputs ? shownText(form, inputs, row.gold) : "");
    for (const value of [row.gold, row.first, row.second]) line.insertCell().append(shownAnswer(form, inputs, value, row.gold, told));
  }
  const scroll = element("div", undefined, { class: "scroll" });
  scroll.append(table);
  block.append(scroll);
  return block;
}
