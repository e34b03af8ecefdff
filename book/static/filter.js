// A field above a long table: only the rows that contain what is typed stay; it says when none does.
for (const box of document.querySelectorAll(".filterable")) {
  const field = Object.assign(document.createElement("input"), { type: "search", placeholder: "Find a model" });
  const said = Object.assign(document.createElement("p"), { role: "status" });
  const rows = [...box.querySelectorAll("tbody tr")];
  field.setAttribute("aria-label", "Rows that contain");
  field.oninput = () => {
    const wanted = field.value.trim().toLowerCase();
    rows.forEach((row) => { row.hidden = !row.textContent.toLowerCase().includes(wanted); });
    const none = rows.every((row) => row.hidden);
    said.textContent = none ? "No row has this. A model that is not here can be asked by audit." : "";
  };
  box.prepend(field, said);
}
