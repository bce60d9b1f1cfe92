// A page without filters: the address gives its theme and opens the sheet that it names.
function restoreView() {
  const view = readState(location.hash) || { at: decodeURIComponent(location.hash.slice(1)) };
  for (const name of Object.keys(state)) delete state[name];
  if (view.theme) state.theme = view.theme;
  showTheme(view);
  openTarget(view.at);
}
keepViewInLinks();
restoreView();
addEventListener("hashchange", restoreView);
