// What a reader has done: exercises ticked, and each quiz question by the first answer opened. It is
// kept in this browser and nowhere else; the page “Your path” shows it, and forgets it.
{
  const KEY = "where-did-the-bias-go: path";
  const page = location.pathname.match(/([\w-]+)\.html$/)?.[1] ?? "";

  const read = () => {
    try {
      return JSON.parse(localStorage.getItem(KEY)) ?? {};
    } catch {
      return {}; // a browser that keeps nothing
    }
  };

  const keep = (name, value) => {
    try {
      localStorage.setItem(KEY, JSON.stringify({ ...read(), [name]: value }));
    } catch {
      // what was done is shown all the same, until the page is left
    }
  };

  const element = (tag, options, ...children) => {
    const made = Object.assign(document.createElement(tag), options);
    made.append(...children);
    return made;
  };

  const exercises = () => {
    for (const heading of document.querySelectorAll("h3")) {
      const name = heading.textContent.match(/^Exercise (\d+[A-Z]) ·/)?.[1];
      if (!name) continue;
      const box = element("input", { type: "checkbox", checked: Boolean(read()[name]) });
      box.addEventListener("change", () => keep(name, box.checked));
      heading.after(element("label", { className: "path-done" }, box, ` I have done ${name}`));
    }
  };

  const quiz = () => {
    const answers = [...document.querySelectorAll("details:is(.quiz-right, .quiz-wrong)")];
    const numbers = new Set(answers.map((answer) => number(answer)));
    const score = element("p", { className: "path-score" });
    score.setAttribute("role", "status");
    const say = () => {
      const first = [...numbers].map((n) => read()[`${page} ${n}`]).filter((x) => x !== undefined);
      const right = first.filter(Boolean).length;
      score.textContent = `${first.length} of ${numbers.size} answered, ${right} right at the `
        + "first try. Kept in this browser only.";
    };
    for (const answer of answers) {
      answer.addEventListener("toggle", () => {
        const name = `${page} ${number(answer)}`;
        if (!answer.open || read()[name] !== undefined) return;
        keep(name, answer.classList.contains("quiz-right"));
        say();
      });
    }
    answers.at(-1)?.closest("section").after(score);
    say();
  };

  const number = (answer) => answer.closest("section").querySelector("h2").textContent.match(/\d+/)[0];

  // Each row of the table links to a sheet or a quiz, and says how many questions it has.
  const path = (table) => {
    const next = document.getElementById("path-next");
    next.setAttribute("role", "status");
    const show = () => {
      const done = Object.entries(read()).filter(([, value]) => value !== undefined);
      let first;
      const later = (row) => Boolean(row.querySelector(".for-later"));
      const rows = [...table.tBodies[0].rows].sort((a, b) => later(a) - later(b));
      for (const row of rows) {
        const [reading, work, of, cell] = row.cells;
        const name = work.querySelector("a").href.match(/([\w-]+)\.html/)[1];
        const chapter = Number.parseInt(name, 10);
        const mine = ([key, value]) =>
          key.startsWith(`${name} `) || (value && /^\d+[A-Z]$/.test(key) && Number.parseInt(key, 10) === chapter);
        const count = done.filter(mine).length;
        cell.textContent = `${count} of ${of.textContent}`;
        if (count < Number(of.textContent)) first ??= [reading, work];
      }
      next.replaceChildren(...(first ? ["Next: ", ...links(first)] : ["All is done."]));
    };
    const links = (cells) =>
      cells.flatMap((cell) => [...cell.querySelectorAll("a")]).flatMap((link, n) => [
        n ? ", then " : "read ", link.cloneNode(true)]);
    const forget = element("button", { type: "button", className: "path-forget", textContent: "Forget all this" });
    forget.addEventListener("click", () => {
      localStorage.removeItem(KEY);
      show();
    });
    table.after(forget);
    show();
  };

  document.addEventListener("DOMContentLoaded", () => {
    if (page.endsWith("-exercises")) exercises();
    if (page.startsWith("quiz-")) quiz();
    const table = page === "your-path" && document.querySelector("article table");
    if (table) path(table);
  });
}
