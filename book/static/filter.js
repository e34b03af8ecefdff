// A field above a long list: only what contains the typed words stays. A message says when nothing does.
for (const [list, entry, placeholder, nothing] of [
  [".filterable", "tbody tr", "Find a model", "No row has all these words. Ask audit about a model that is not here."],
  [".claims-of-a-text", ".claim", "Find a claim or a verdict", "No claim has all these words."],
  [".register-names", "li", "Find a theorem", "No theorem has all these words in its name."],
]) {
  const lists = [...document.querySelectorAll(list)];
  if (!lists.length) continue;
  const field = Object.assign(document.createElement("input"), { type: "search", className: "filter", placeholder });
  const said = Object.assign(document.createElement("p"), { role: "status" });
  field.setAttribute("aria-label", placeholder);
  field.oninput = () => {
    const words = field.value.toLowerCase().split(/\s+/).filter(Boolean);
    const lacks = ({ textContent }) => words.some((word) => !textContent.toLowerCase().includes(word));
    for (const one of lists) {
      const entries = [...one.querySelectorAll(entry)];
      entries.forEach((each) => { each.hidden = lacks(each); });
      one.hidden = entries.every((each) => each.hidden);
    }
    said.textContent = lists.every((one) => one.hidden) ? nothing : "";
  };
  lists[0].before(field, said);
}
