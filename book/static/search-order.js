// Which of the pages found stands first. Sphinx gives most of them the same score, and sorts those
// by the alphabet. Here a word counts once where it is on the page, once more in a heading and once
// more in the title; the fewer pages have it in a heading, the more it counts. Of equal pages a
// chapter stands before its exercises and what was written around it, an early one before a late one.
// Who asks about a bias is led to the page of answers first, if it has every word of the question.
{
  const found = {};

  const stemsOf = (query) => [...Search._parseQuery(query)[1]];

  const weights = (query) => {
    const { docnames, titles, terms, titleterms } = Search._index;
    const answers = docnames.indexOf("book/which-bias-can-go");
    let answered = stemsOf(query).includes(stemsOf("bias")[0]);
    const chapter = (name) => name.startsWith("notebooks/") && !name.includes("exercises");
    const weight = docnames.map((name, page) => chapter(name) - page / docnames.length / 10);
    for (const stem of stemsOf(query)) {
      const like = Object.entries(titleterms).filter(([term]) => term.startsWith(stem));
      const inHeading = new Set(like.flatMap(([, pages]) => pages));
      const inText = new Set([...inHeading, ...[terms[stem]].flat()]);
      const rarity = Math.log((1 + docnames.length) / (1 + inHeading.size));
      const start = new RegExp(`\\b${stem.replace(/i$/, "")}`, "i"); // the stem of “decay” is “decai”
      docnames.forEach((name, page) => {
        weight[page] += rarity * (inText.has(page) + inHeading.has(page) + start.test(titles[page]));
      });
      answered &&= inText.has(answers);
    }
    if (answered) weight[answers] += 1000; // more than all words together
    return weight;
  };

  Scorer.score = ([docname, , , , score]) => {
    const query = new URLSearchParams(location.search).get("q") ?? "";
    found[query] ??= weights(query);
    return found[query][Search._index.docnames.indexOf(docname)] + score / 100;
  };
}
