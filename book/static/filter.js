// A field above a long table: only the rows that contain what is typed stay.
for (const box of document.querySelectorAll(".filterable")) {
  const field = Object.assign(document.createElement("input"), { type: "search", placeholder: "Find a model" });
  field.setAttribute("aria-label", "Rows that contain");
  field.oninput = () => box.querySelectorAll("tbody tr").forEach((row) => {
    row.hidden = !row.textContent.toLowerCase().includes(field.value.toLowerCase());
  });
  box.prepend(field);
}
