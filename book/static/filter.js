// A field above a long list: only what contains the typed words stays. A message says when nothing does.
for (const [each, list, placeholder, nothing] of [
  [".filterable tbody tr", ".filterable", "Find a model", "No row has this. Ask audit about a model that is not here."],
  [".claim", ".claims-of-a-text", "Find a claim or a verdict", "No claim has all these words."],
  [".register-names li", ".register-names", "Find a theorem", "No theorem has all these words in its name."],
]) {
  const entries = [...document.querySelectorAll(each)];
  if (!entries.length) continue;
  const field = Object.assign(document.createElement("input"), { type: "search", className: "filter", placeholder });
  const said = Object.assign(document.createElement("p"), { role: "status" });
  field.setAttribute("aria-label", placeholder);
  field.oninput = () => {
    const words = field.value.toLowerCase().split(/\s+/).filter(Boolean);
    const has = (entry) => words.every((word) => entry.textContent.toLowerCase().includes(word));
    entries.forEach((entry) => { entry.hidden = !has(entry); });
    for (const one of document.querySelectorAll(list)) one.hidden = !one.querySelector(`${each.split(" ").at(-1)}:not([hidden])`);
    said.textContent = entries.every((entry) => entry.hidden) ? nothing : "";
  };
  entries[0].closest(list).before(field, said);
}
