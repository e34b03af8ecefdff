// The exhibits, by the name that a page gives: <div data-exhibit="three-biases">…</div>.
const exhibits = (() => {
  const { attention, block, deviation, groupNorm, linear, norms, plus, rounded, softmax } = formulas;
  const { plain, signed } = parts;

  const TOKENS = [[1, 0], [0, 1], [-1, 0.5], [0.5, -1]];
  const HEAD = { // as nn.Linear stores them: a row x maps to x Wᵀ + b
    q: [[1, 0.5], [-0.5, 1]], k: [[0.5, 1], [1, -0.5]], v: [[1, -1], [0.5, 1]], o: [[1, 0.5], [-0.5, 1]],
  };
  const COLOURS = ["#3f66a8", "#b4551f", "#2a7a4b", "#8a4fa3"];
  const number = (n) => ["no", "one", "two", "three", "four"][n];
  const compared = (label, now, was) => now.map((x, j) => ({ label: label(j), now: x, was: was[j] }));
  const feature = (j) => `feature ${j + 1}`, key = (j) => `key ${j + 1}`;

  // ── 1 · three sliders on one head ─────────────────────────────────────────────────────
  const DIRECTION = { q: [1, -0.5], k: [1, 0.5], v: [0.5, 1] }; // a slider at t: the bias t · direction
  const biases = (now) => Object.fromEntries(Object.entries(DIRECTION).map(([role, d]) => [role, d.map((x) => now[role] * x)]));
  const biasSlider = (name, label) => ({ kind: "slider", name, label, min: -1.5, max: 1.5, step: 0.1 });

  const threeBiases = {
    label: "Three biases on one attention head",
    start: { k: 0, q: 0, v: 0, token: "0" },
    controls: [biasSlider("k", "key bias"), biasSlider("q", "query bias"), biasSlider("v", "value bias"),
      { kind: "choice", name: "token", label: "Query of token", options: TOKENS.map((_, i) => [`${i}`, `${i + 1}`]) }],
    plots(now) {
      const i = +now.token, after = attention(TOKENS, HEAD, biases(now)), before = attention(TOKENS, HEAD);
      return [
        { title: "Scores", bars: compared(key, after.scores[i], before.scores[i]), low: -4, high: 4 },
        { title: "Weights", bars: compared(key, after.weights[i], before.weights[i]), low: 0, high: 1, show: (x) => `${Math.round(100 * x)} %` },
        { title: "Output", bars: compared(feature, after.output[i], before.output[i]), low: -3, high: 3 },
      ];
    },
    say(now) {
      const said = [], i = +now.token, scores = (k) => attention(TOKENS, HEAD, biases({ ...now, k })).scores[i][0];
      if (now.k) said.push(`The key bias adds ${signed(scores(now.k) - scores(0), 2)} to all four scores: no weight changes.`);
      if (now.q) said.push("The query bias adds another number to each score: the weights change.");
      if (now.v) said.push(`The value bias adds (${linear(biases(now).v, HEAD.o).map((x) => signed(x, 2)).join(", ")}) to the output, whatever the weights are.`);
      return said.join(" ") || "No bias yet. Move the key bias first: what happens to the weights?";
    },
  };

  // ── 2 · tokens to drag: equivariance, and the mask that ends it ────────────────────────
  const IN_ORDER = TOKENS.map((_, i) => i);
  const outputs = ({ order, mask }) => attention(order.map((t) => TOKENS[t]), HEAD, {}, mask === "causal").output;
  const differs = (a, b) => a.some((x, j) => Math.abs(x - b[j]) > 1e-9);

  const dragTokens = {
    label: "Four tokens to drag into another order",
    start: { order: IN_ORDER, mask: "none" },
    controls: [{ kind: "order", name: "order", label: "The order of the tokens", colours: COLOURS },
      { kind: "choice", name: "mask", label: "Mask", options: [["none", "none"], ["causal", "causal"]] }],
    plots(now) {
      const after = outputs(now), before = outputs({ order: IN_ORDER, mask: now.mask });
      return now.order.map((token, place) => ({
        title: `Output ${token + 1}`, low: -2, high: 2,
        bars: compared(feature, after[place], before[token]).map((each) => ({ ...each, colour: COLOURS[token] })),
      }));
    },
    say(now) {
      const after = outputs(now), before = outputs({ order: IN_ORDER, mask: now.mask });
      const changed = now.order.filter((token, place) => differs(after[place], before[token])).length;
      if (now.order.every((token, place) => token === place)) return "Drag a token, or move it with the arrow keys. Does its output change?";
      return changed ? `With the causal mask ${number(changed)} of four outputs changed: a token sees what stands before it.`
        : now.mask === "none" ? "Each output moved with its token, and none changed: the layer is equivariant."
          : "In this order no output changed. Try another one.";
    },
  };

  // ── 3 · a bias before a norm ───────────────────────────────────────────────────────────
  const BATCH = [[0.5, -1, 1.5], [-1, 0.5, 1], [1.5, 1, -0.5], [0, -0.5, -1]];
  const shifted = ({ level, single }) => BATCH.map((row) => plus(row, [level + single, level, level]));
  const NORMS = [["batch", "BatchNorm"], ["layer", "LayerNorm"], ["rms", "RMSNorm"]];

  const biasBeforeNorm = {
    label: "A bias before three norms",
    start: { level: 0, single: 0, row: "0" },
    controls: [{ kind: "slider", name: "level", label: "on all features", min: -2, max: 2, step: 0.1 },
      { kind: "slider", name: "single", label: "on feature 1 only", min: -2, max: 2, step: 0.1 },
      { kind: "choice", name: "row", label: "Row", options: BATCH.map((_, i) => [`${i}`, `${i + 1}`]) }],
    plots: (now) => NORMS.map(([norm, title]) => ({
      title, low: -2.5, high: 2.5, bars: compared(feature, norms[norm](shifted(now))[+now.row], norms[norm](BATCH)[+now.row]) })),
    say({ level, single }) {
      if (!level && !single) return "Add a bias to every row. Which norm still shows it?";
      if (!single) return "The same number on all features: BatchNorm and LayerNorm erase it, RMSNorm does not.";
      return "A bias that differs between features: BatchNorm erases it, LayerNorm erases its mean only, RMSNorm nothing.";
    },
  };

  // ── 4 · a constant on its way through a block ──────────────────────────────────────────
  const STREAM = [[1, -0.5, 0.5, -1], [-1, 1, 0.5, 0], [0.5, 0.5, -1.5, 1]];
  const turned = (rows, by) => rows.map((_, i) => rows[(i + by) % rows.length]);
  const MIX = [[0.6, -0.4, 0.2, 0.5], [0.3, 0.7, -0.5, 0.1], [-0.2, 0.4, 0.8, -0.3], [0.5, 0.1, 0.3, -0.6]];
  const BLOCK = { q: MIX, k: turned(MIX, 1), v: turned(MIX, 2), o: turned(MIX, 3), first: turned(MIX, 1), second: MIX };
  const STAGES = [["attention", "after attention"], ["network", "after network"], ["end", "after last norm"]];
  const constant = ({ size, kind }) => (kind === "all" ? Array(4).fill(size) : [size, 0, 0, 0]);

  const throughABlock = {
    label: "A constant on its way through a block",
    start: { size: 0, kind: "all", place: "pre" },
    controls: [{ kind: "slider", name: "size", label: "added to b_O", min: -2, max: 2, step: 0.1 },
      { kind: "choice", name: "kind", label: "On", options: [["all", "all features"], ["one", "feature 1"]] },
      { kind: "choice", name: "place", label: "Norm", options: [["pre", "pre-norm"], ["post", "post-norm"]] }],
    plots(now) {
      const pre = now.place === "pre", after = block(STREAM, BLOCK, { o: constant(now) }, pre), before = block(STREAM, BLOCK, {}, pre);
      return STAGES.filter(([stage]) => pre || stage !== "end").map(([stage, title]) => ({
        title, low: -3, high: 3, bars: compared(feature, after[stage][0], before[stage][0]) }));
    },
    say({ size, kind, place }) {
      if (!size) return "Add a constant to the output bias of attention, and follow it down the stream.";
      if (kind === "one") return "On one feature it is no constant: every stage sees it, in either placement.";
      return place === "pre" ? "Pre-norm: the stream carries the constant past every reader, and the last norm erases it."
        : "Post-norm: the norm right after the sum erases it; nothing behind it moves.";
    },
  };

  // ── 5 · fused and separate initialisation ──────────────────────────────────────────────
  // Eight keys whose scores lie at the eighths of a normal distribution, times its deviation.
  const QUANTILES = [-1.5341, -0.8871, -0.4888, -0.1573, 0.1573, 0.4888, 0.8871, 1.5341];
  const WIDTH = 512;
  const rowsSeen = ({ how, groups }) => {
    const ofKeys = (WIDTH * 2 ** groups) / 8;
    return how === "fused" ? Array(2).fill(WIDTH + 2 * ofKeys) : [WIDTH, ofKeys];
  };

  const fusedOrSeparate = {
    label: "Xavier on a fused and on separate projections",
    start: { how: "separate", groups: 3 },
    controls: [{ kind: "choice", name: "how", label: "Initialise", options: [["separate", "each by itself"], ["fused", "the fused matrix"]] },
      { kind: "slider", name: "groups", label: "key heads", min: 0, max: 3, step: 1, show: (x) => `${2 ** x} of 8` }],
    plots(now) {
      const sigma = deviation(WIDTH, ...rowsSeen(now)), scores = QUANTILES.map((z) => sigma * z);
      return [
        { title: "Scores of eight keys", low: -2.5, high: 2.5, bars: compared(key, scores, QUANTILES) },
        { title: "Weights", low: 0, high: 0.5, show: (x) => `${Math.round(100 * x)} %`, bars: compared(key, softmax(scores), softmax(QUANTILES)) },
      ];
    },
    say(now) {
      const sigma = deviation(WIDTH, ...rowsSeen(now));
      return `The scores have the deviation ${plain(sigma)}. Xavier read ${rowsSeen(now)[0]} rows for the queries and ${rowsSeen(now)[1]} for the keys.`
        + (Math.abs(sigma - 1) < 1e-9 ? " That is what the scale is made for." : " Outlined: the deviation 1 that the scale is made for.");
    },
  };

  // ── 6 · the digits that a large key bias costs ─────────────────────────────────────────
  const KEYS = [0.3, -0.7, 1.1, 0.6], QUERY = 1; // scores = query · key, then the bias taken away by softmax
  const held = ({ size, dtype }) => KEYS.map((k) => rounded(k + 10 ** size, dtype));

  const largeKeyBias = {
    label: "A growing key bias and the digits it costs",
    start: { size: -1, dtype: "bfloat16" },
    controls: [{ kind: "slider", name: "size", label: "key bias", min: -1, max: 4, step: 0.25, show: (x) => plain(10 ** x, x < 1 ? 1 : 0) },
      { kind: "choice", name: "dtype", label: "Keys held in", options: [["bfloat16", "bfloat16"], ["float16", "float16"], ["float32", "float32"]] }],
    plots: (now) => [
      { title: "Keys, less the bias", low: -2, high: 2, bars: compared(key, held(now).map((k) => k - 10 ** now.size), KEYS) },
      { title: "Weights", low: 0, high: 0.6, show: (x) => `${Math.round(100 * x)} %`, bars: compared(key, softmax(held(now).map((k) => QUERY * k)), softmax(KEYS.map((k) => QUERY * k))) },
    ],
    say({ size, dtype }) {
      const wrong = Math.max(...held({ size, dtype }).map((k, j) => Math.abs(k - 10 ** size - KEYS[j])));
      return `In exact arithmetic the bias changes no weight. Held in ${dtype}, a key is off by up to ${wrong.toPrecision(2)}, and no softmax brings that back.`;
    },
  };

  // ── 7 · groups of channels, each with its own mean ─────────────────────────────────────
  const IMAGE = [[0.5, -1, 1.5], [-1, 0.5, 1], [1.5, 1, -0.5], [0, -0.5, -1]]; // a row for each channel
  const GROUPS = [[4, "InstanceNorm"], [2, "GroupNorm, two groups"], [1, "LayerNorm"]];
  const channel = (c) => `channel ${c + 1}`, firstOf = (Z) => Z.map((row) => row[0]);
  const biased = ({ one, two, rest }) => IMAGE.map((row, c) => row.map((x) => x + [one, two, rest, rest][c]));
  const channelSlider = (name, label) => ({ kind: "slider", name, label, min: -2, max: 2, step: 0.1 });

  const groupsOfANorm = {
    label: "A bias of a convolution before three norms",
    start: { one: 0, two: 0, rest: 0 },
    controls: [channelSlider("one", "on channel 1"), channelSlider("two", "on channel 2"), channelSlider("rest", "on channels 3, 4")],
    plots: (now) => GROUPS.map(([groups, title]) => ({
      title, low: -2.5, high: 2.5, bars: compared(channel, firstOf(groupNorm(biased(now), groups)), firstOf(groupNorm(IMAGE, groups))) })),
    say({ one, two, rest }) {
      if (!one && !two && !rest) return "Add a bias to the channels. Which norm erases all of it?";
      if (one !== two) return "The bias differs within the first group: only InstanceNorm erases all of it.";
      return one === rest ? "The same bias on all channels: each of the three norms erases it."
        : "One bias for each group: InstanceNorm and GroupNorm erase it. LayerNorm subtracts only the mean over all channels.";
    },
  };

  // ── 8 · the shift of the norm before, in place of the query bias ───────────────────────
  const shiftOf = ({ size }) => [size, -0.5 * size]; // t
  const queryBias = (now) => attention(TOKENS, HEAD, { q: linear(shiftOf(now), HEAD.q) });
  const shiftBefore = (now) => {
    const t = shiftOf(now), repaid = linear(linear(t, HEAD.v), HEAD.o).map((x) => -x);
    return attention(TOKENS.map((x) => plus(x, t)), HEAD, { o: now.output === "repaid" ? repaid : undefined });
  };

  const shiftForQueryBias = {
    label: "The shift of the norm before attention in place of the query bias",
    start: { size: 0, output: "same" },
    controls: [{ kind: "slider", name: "size", label: "shift t", min: -1.5, max: 1.5, step: 0.1 },
      { kind: "choice", name: "output", label: "Output bias", options: [["same", "b_O"], ["repaid", "b_O − W_O W_V t"]] }],
    plots(now) {
      const after = shiftBefore(now), before = queryBias(now);
      return [
        { title: "Scores", bars: compared(key, after.scores[0], before.scores[0]), low: -4, high: 4 },
        { title: "Weights", bars: compared(key, after.weights[0], before.weights[0]), low: 0, high: 1, show: (x) => `${Math.round(100 * x)} %` },
        { title: "Output", bars: compared(feature, after.output[0], before.output[0]), low: -3, high: 3 },
      ];
    },
    say({ size, output }) {
      if (!size) return "Outlined: attention with the query bias W_Q t. Filled: no query bias, and t added to every token. Move t.";
      return output === "repaid" ? "The weights agree, because softmax ignores what t does to the keys. The output bias removes what t does to the values, so the outputs agree too."
        : "The weights agree, because softmax ignores what t does to the keys. The values also read t, so the output is off by W_O W_V t.";
    },
  };

  // ── 9 · variances that add up with depth ───────────────────────────────────────────────
  const added = ({ blocks, how }) => (how === "scaled" ? 1 / (2 * blocks) : 1); // by each of 2N sublayers
  const streamAt = (now, part) => 1 + 2 * now.blocks * part * added(now); // it starts at 1
  const PARTS = [[0, "start"], [0.25, "a quarter"], [0.5, "half-way"], [1, "the end"]];

  const depthOfAStream = {
    label: "The stream of a pre-norm model and the gradient behind its last norm",
    start: { blocks: 4, how: "plain" },
    controls: [{ kind: "slider", name: "blocks", label: "blocks N", min: 1, max: 48, step: 1, show: (x) => `${x}` },
      { kind: "choice", name: "how", label: "Writers", options: [["plain", "as drawn"], ["scaled", "divided by √(2N)"]] }],
    plots: (now) => [
      { title: "Variance of the stream", low: 0, high: 100, bars: PARTS.map(([part, label]) => ({ label, now: streamAt(now, part) })) },
      { title: "Gradient behind the last norm", low: 0, high: 1, bars: [{ label: "factor", now: 1 / Math.sqrt(streamAt(now, 1)) }] },
    ],
    say: (now) => `Each of the ${2 * now.blocks} sublayers adds variance ${plain(added(now), now.how === "scaled" ? 3 : 0)}. The stream ends at ${plain(streamAt(now, 1), 0)}, and the last norm divides gradients by ${plain(Math.sqrt(streamAt(now, 1)), 1)}.`,
  };

  // ── 10 · what tokens have in common ────────────────────────────────────────────────────
  const KEY_ROWS = [8, 16, 32, 64, 128, 192], COMMON = 1; // one query's score with what all tokens share
  const scoresOf = ({ cosine, rows }) => QUANTILES.map((z) =>
    deviation(64, 64, KEY_ROWS[rows]) * (Math.sqrt(cosine) * COMMON + Math.sqrt(1 - cosine) * z));

  const correlatedTokens = {
    label: "Tokens with something in common, and the fan of the keys",
    start: { cosine: 0, rows: 3 },
    controls: [{ kind: "slider", name: "cosine", label: "cosine of tokens", min: 0, max: 1, step: 0.05, show: (x) => plain(x) },
      { kind: "slider", name: "rows", label: "rows of W_K", min: 0, max: 5, step: 1, show: (x) => `${KEY_ROWS[x]}` }],
    plots(now) {
      const scores = scoresOf(now), plainly = scoresOf({ cosine: 0, rows: 3 });
      return [
        { title: "Scores of eight keys", low: -2.5, high: 2.5, bars: compared(key, scores, plainly) },
        { title: "Weights", low: 0, high: 0.5, show: (x) => `${Math.round(100 * x)} %`, bars: compared(key, softmax(scores), softmax(plainly)) },
      ];
    },
    say({ cosine, rows }) {
      const size = deviation(64, 64, KEY_ROWS[rows]);
      return `A score has deviation ${plain(size)} over the draw of the weights; the scores of one query spread by ${plain(size * Math.sqrt(1 - cosine))}.`
        + (cosine ? " What the tokens share moves all scores together, and softmax ignores it." : "");
    },
  };

  return { "three-biases": threeBiases, "drag-tokens": dragTokens, "bias-before-norm": biasBeforeNorm,
    "through-a-block": throughABlock, "fused-or-separate": fusedOrSeparate, "large-key-bias": largeKeyBias,
    "groups-of-a-norm": groupsOfANorm, "shift-for-query-bias": shiftForQueryBias,
    "depth-of-a-stream": depthOfAStream, "correlated-tokens": correlatedTokens };
})();

for (const place of document.querySelectorAll("[data-exhibit]")) parts.draw(place, exhibits[place.dataset.exhibit]);
