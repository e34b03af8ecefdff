// What the theme leaves undone. It takes the focus off a button that is pressed, and whoever works by
// keyboard would begin at the top again: there the button gets it back. The list of contents, opened
// over a narrow page, covers the section that was chosen in it: it closes. And the arrows that open a
// chapter in the sidebar have no name. A formula that goes on beyond its line is scrolled by keyboard.
// What the search found is not painted over the page, where "bias" stands 200 times, and an excerpt
// is of the text: not of the list of contents beside it, nor with the signs around a formula.
{
  let pressed; // the last button, where it was pressed by keyboard

  const giveBack = () =>
    setTimeout(() => document.activeElement === document.body && pressed?.focus());

  const remember = (event) => {
    const button = event.target.closest("button");
    if (!button) return;
    pressed = event.detail === 0 ? button : undefined;
    giveBack();
  };

  const closeBehind = (event) => {
    const link = event.target.closest("dialog a[href^='#']");
    if (!link) return;
    pressed = undefined; // the focus goes where the link leads
    link.closest("dialog").close();
  };

  const nameArrows = () => {
    for (const arrow of document.querySelectorAll(".bd-sidebar-primary summary")) {
      const chapter = arrow.closest("li").querySelector("a").textContent.trim();
      arrow.setAttribute("aria-label", `Pages of “${chapter}”`);
    }
  };

  /** On a narrow page a formula is made smaller, down to SMALLEST of its size, before it scrolls. */
  const SMALLEST = 0.75;
  const fit = (formulas) => {
    formulas.forEach((formula) => { formula.firstElementChild.style.fontSize = ""; });
    // Every width is read before the first is changed: the page is laid out once and not for each.
    const fits = formulas.map((formula) => formula.clientWidth / formula.scrollWidth);
    formulas.forEach((formula, at) => {
      if (fits[at] < 1) formula.firstElementChild.style.fontSize = `${Math.max(fits[at], SMALLEST) * 1.12}em`;
      if (fits[at] < SMALLEST) formula.tabIndex = 0;
      else formula.removeAttribute("tabindex");
    });
  };
  // Only formulas near the screen are fitted, so that a long page is there at once.
  const near = new IntersectionObserver(
    (entries) => fit(entries.filter((entry) => entry.isIntersecting).map((entry) => entry.target)),
    { rootMargin: "100%" });
  const fitFormulas = () => {
    near.disconnect();
    document.querySelectorAll(".katex-display").forEach((formula) => near.observe(formula));
  };

  const quoteText = () => {
    if (typeof Search === "undefined") return localStorage.removeItem("sphinx_highlight_terms");
    Search.htmlToText = (html, anchor) => {
      const page = new DOMParser().parseFromString(html, "text/html");
      const text = page.querySelector("article.bd-article") ?? page.body;
      text.querySelectorAll(".headerlink, script, style").forEach((part) => part.remove());
      text.querySelectorAll(".katex-html, annotation").forEach((part) => part.remove());
      return ((anchor && text.querySelector(anchor)) || text).textContent;
    };
  };

  document.addEventListener("DOMContentLoaded", nameArrows);
  document.addEventListener("DOMContentLoaded", quoteText, true);
  document.addEventListener("DOMContentLoaded", fitFormulas);
  window.addEventListener("load", fitFormulas); // the fonts are there
  window.addEventListener("resize", fitFormulas);
  document.addEventListener("click", remember, true);
  document.addEventListener("click", closeBehind);
  document.addEventListener("close", giveBack, true);
}
