// The view in the address, on every page: the theme, and a place that a link leads to.
const state = {};

// The address holds the view. A place on the page is a part of it ("at"), so that following a link keeps the filters.
function remember(name, value) {
  state[name] = value;
  const text = writeState(state);
  history.replaceState(null, "", text ? `#${text}` : location.pathname + location.search);
}

function keepViewInLinks() {
  document.addEventListener("click", (event) => {
    const link = event.target.closest("a[href]");
    const href = link && link.getAttribute("href");
    if (!href || event.defaultPrevented || event.button) return;
    const target = href.startsWith("#") && document.getElementById(decodeURIComponent(href.slice(1)));
    if (target && writeState({ ...state, at: "" })) {
      event.preventDefault();
      remember("at", target.id);
      openTarget(target.id);
    } else if (!href.startsWith("#") && !href.includes(":") && state.theme) {
      const [file, place = ""] = href.split("#");
      const at = (readState(place) || { at: place }).at;
      link.href = `${file}#${writeState({ theme: state.theme, at: at || "" })}`;
    }
  });
}

function showTheme(view) {
  if (["light", "dark"].includes(view.theme)) document.documentElement.dataset.theme = view.theme;
  else delete document.documentElement.dataset.theme;
}

// A link to a cell or a sheet opens the block that holds it.
function openTarget(id) {
  const target = id && document.getElementById(id);
  if (!target) return;
  for (const one of document.querySelectorAll(".at")) one.classList.remove("at");
  target.classList.add("at");
  const block = target.closest("details");
  if (block) block.open = true;
  target.scrollIntoView({ block: target === block ? "start" : "center" });
}
