// Decides the order of the search results. Sphinx gives most pages the same score, and sorts those
// alphabetically. Here a word scores once if it is on the page, once more if it is in a heading and once
// more if it is in the title; it weighs more, the fewer pages have it in a heading. Among pages with
// equal scores chapters come first, in the order of the book; exercises and quizzes come after all other
// pages. For a question about a bias, the page “Which bias can go?” comes first if it has every word of
// the question. If no page has every word, pages that have some are found, and the search says which
// words it did not find.
{
  const found = {};

  /** What people type, as a regular expression, and the words of this book for it. */
  const CALLED_HERE = {
    "quanti[sz]\\w+|int8|fp8|fp16|half precision|mixed precision": "costs digits",
    "mla": "latent attention",
    "mup|μp|maximal update": "fans variance",
    "normali[sz]ation": "layernorm",
    "qwen(2.5)?": "qwen2",
    "sliding[- ]window|local attention": "mask",
    "softmax[_ ]?1|softmax off by one|register tokens?": "sink",
    "(pre|post)-?ln": "$1-norm",
    "(batch|layer|group|instance|rms)[- ]norm": "$1norm",
    "flash[- ]attention": "flashattention",
    "rotary": "rope",
    "kv": "key value",
    "qkv_bias": "qkv bias",
    "gqa|mqa|grouped[- ]query|multi[- ]query": "key heads",
    "(\\w+)i[sz]ation": "$1isation",
    "(\\w{4,})iz(e|ed|ing)": "$1is$2",
    "conv": "convolution",
    "what|how|why|can|i|my|do|does|should": "",
  };

  const inWordsOfTheBook = (query) => Object.entries(CALLED_HERE).reduce((words, [typed, here]) =>
    words.replace(new RegExp(`(?<![\\w-])(?:${typed})(?![\\w-])`, "gi"), here), query);

  const stemsOf = (query) => [...Search._parseQuery(query)[1]];

  const widen = () => {
    if (typeof Search === "undefined") return;
    const { _parseQuery, _performSearch } = Search;
    Search._parseQuery = (query) => _parseQuery(inWordsOfTheBook(query));
    Search._performSearch = (query, stems, ...others) => {
      const results = _performSearch(query, stems, ...others);
      if (results.length || stems.size < 2) return results;
      const each = [...stems].map((stem) => [stem, _performSearch(query, new Set([stem]), ...others)]);
      const lost = each.filter(([, pages]) => !pages.length).map(([stem]) => typedAs(stem, query));
      const said = lost.length ? `Not found: ${lost.join(", ")}.` : "";
      Search.output.before(`No page has all of these words. ${said} Pages that have some of them:`);
      const some = new Map(each.flatMap(([, pages]) => pages.map((page) => [page[0] + page[2], page])));
      return [...some.values()].sort((a, b) => a[4] - b[4]);
    };
  };

  const typedAs = (stem, query) =>
    splitQuery(inWordsOfTheBook(query)).find((word) => stemsOf(word).includes(stem)) ?? stem;

  document.addEventListener("DOMContentLoaded", widen, true); // before the search begins

  const weights = (query) => {
    const { docnames, titles, terms, titleterms } = Search._index;
    const answers = docnames.indexOf("book/which-bias-can-go");
    let answered = stemsOf(query).includes(stemsOf("bias")[0]);
    const chapter = (name) => name.startsWith("notebooks/");
    const practice = (name) => /exercises|quiz-/.test(name) && 100;
    const weight = docnames.map((name, page) => chapter(name) - practice(name) - page / docnames.length / 10);
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
