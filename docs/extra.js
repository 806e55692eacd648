// The theme makes a <nav> without a name of the buttons of each block of code: dozens of landmarks, all alike, for a
// screen reader.
new MutationObserver(() => {
  for (const each of document.querySelectorAll("nav.md-code__nav:not([role])")) each.setAttribute("role", "none");
}).observe(document.body, { childList: true, subtree: true });
