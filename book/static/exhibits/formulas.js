// What the exhibits compute. Tokens are rows; nothing here draws. A test holds each function
// to PyTorch's own modules: tests/site/test_exhibits.py.
const formulas = (() => {
  const dot = (a, b) => a.reduce((sum, x, i) => sum + x * b[i], 0);
  const plus = (a, b) => a.map((x, i) => x + b[i]);
  const mean = (x) => x.reduce((a, b) => a + b, 0) / x.length;
  const zeros = (n) => Array(n).fill(0);
  const transpose = (rows) => rows[0].map((_, j) => rows.map((row) => row[j]));

  /** One row through nn.Linear: x ↦ x Wᵀ + b. */
  const linear = (x, W, b = zeros(W.length)) => plus(W.map((row) => dot(row, x)), b);

  function softmax(scores) {
    const top = Math.max(...scores), powers = scores.map((s) => Math.exp(s - top));
    const sum = powers.reduce((a, b) => a + b, 0);
    return powers.map((p) => p / sum);
  }

  /** One head: W and b by role (q, k, v, o); a causal mask hides the keys behind a query. */
  function attention(X, W, b = {}, causal = false) {
    const [Q, K, V] = ["q", "k", "v"].map((role) => X.map((x) => linear(x, W[role], b[role])));
    const scale = 1 / Math.sqrt(W.q.length), columns = transpose(V);
    const scores = Q.map((q, i) => K.map((k, j) => (causal && j > i ? -Infinity : scale * dot(q, k))));
    const weights = scores.map(softmax);
    const output = weights.map((row) => linear(columns.map((v) => dot(row, v)), W.o, b.o));
    return { scores, weights, output };
  }

  const EPS = 1e-5; // PyTorch's default for BatchNorm and LayerNorm, here for RMSNorm too
  const divided = (x) => x.map((y) => y / Math.sqrt(mean(x.map((z) => z * z)) + EPS));
  const centred = (x) => x.map((y) => y - mean(x));
  const layerNorm = (x) => divided(centred(x));
  const norms = {
    batch: (X) => transpose(transpose(X).map(layerNorm)), // a feature over the rows, in training
    layer: (X) => X.map(layerNorm),
    rms: (X) => X.map(divided),
  };

  /** One image, a row for each channel, through nn.GroupNorm: one group is LayerNorm over the image, a channel each InstanceNorm. */
  function groupNorm(Z, groups) {
    const size = Z.length / groups;
    return Z.map((row, c) => {
      const first = size * Math.floor(c / size), group = Z.slice(first, first + size).flat();
      const whole = layerNorm(group), at = (c - first) * row.length;
      return whole.slice(at, at + row.length);
    });
  }

  /** The stream through one block: what it holds after attention, after the network, after the last norm. */
  function block(X, W, b, preNorm) {
    const each = (rows, f) => rows.map(f), sum = (A, B) => A.map((a, i) => plus(a, B[i]));
    const attend = (Y) => attention(Y, W, b).output;
    const network = (Y) => each(Y, (y) => linear(linear(y, W.first).map((z) => Math.max(z, 0)), W.second, b.second));
    const step = (Y, f) => (preNorm ? sum(Y, f(each(Y, layerNorm))) : each(sum(Y, f(Y)), layerNorm));
    const one = step(X, attend), two = step(one, network);
    return { attention: one, network: two, end: preNorm ? each(two, layerNorm) : two };
  }

  /** The deviation of a scaled score at Xavier's start, for tokens of unit variance (Theorem 10.4). */
  const deviation = (width, rowsOfQ, rowsOfK) =>
    Math.sqrt(((2 * width) / (width + rowsOfQ)) * ((2 * width) / (width + rowsOfK)));

  /** A number as a dtype holds it: rounded to the nearest, ties to even. */
  function rounded(x, dtype) {
    if (dtype === "float64") return x;
    const single = Math.fround(x);
    if (dtype === "float32" || single === 0 || !Number.isFinite(single)) return single;
    const [digits, smallest] = { bfloat16: [8, -126], float16: [11, -14] }[dtype];
    const exponent = Math.max(Math.floor(Math.log2(Math.abs(single))), smallest);
    const unit = 2 ** (exponent - digits + 1), steps = single / unit, floor = Math.floor(steps);
    const up = steps - floor > 0.5 || (steps - floor === 0.5 && floor % 2 !== 0);
    const value = (floor + (up ? 1 : 0)) * unit;
    return dtype === "float16" && Math.abs(value) > 65504 ? Math.sign(value) * Infinity : value;
  }

  return { attention, block, deviation, groupNorm, linear, norms, plus, rounded, softmax, zeros };
})();
if (typeof module !== "undefined") module.exports = formulas;
