// Where a page has an exhibit, its scripts and its style are loaded; elsewhere nothing is.
if (document.querySelector("[data-exhibit]")) {
  const folder = document.currentScript.src.replace(/[^/]*$/, "");
  const style = Object.assign(document.createElement("link"), { rel: "stylesheet", href: `${folder}exhibits.css` });
  const scripts = ["formulas.js", "parts.js", "exhibits.js"].map((name) =>
    Object.assign(document.createElement("script"), { src: folder + name, async: false }));
  document.head.append(style, ...scripts);
}
