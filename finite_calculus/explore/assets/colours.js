// Effects as arrays over kinds, layers and tokens; what the page now looks at, and its colours.
const colours = (() => {
  const STRONGEST = -1;

  // What is shown: one kind or the strongest of all, one layer or the strongest, one head or all of them.
  const look = { word: "", amount: null, layer: STRONGEST, head: -1 };
  let state = null, grid = null, trusted = null, views = {}, shown = null;

  const numbers = async (text, count) => new Float64Array(await viewer.unpack(text, count, 8));
  const size = () => state.layers.length * state.tokens.length;

  const take = async (given) => {
    state = given;
    views = {};
    grid = await numbers(state.effects, state.kinds.length * size());
    trusted = state.calibrated && (await numbers(state.calibrated.trusted, grid.length));
    for (const [name, text] of Object.entries(state.views)) views[name] = await numbers(text, size());
  };

  const parts = (kind) => {
    const [word, amount] = kind.split(":");
    return { word, amount: amount === undefined ? null : Number(amount) };
  };
  const kindText = (word, amount) => (amount === null ? word : `${word}:${amount}`);
  const known = (word, amount) =>
    state.kinds.findIndex((kind) => parts(kind).word === word && parts(kind).amount === amount);
  const viewName = () => `${kindText(look.word, look.amount)} ${look.head}`;

  // The numbers of what is looked at, or the question that brings them.
  const missing = () => {
    if (!look.word || (look.head < 0 && known(look.word, look.amount) >= 0) || views[viewName()]) return null;
    return { kind: kindText(look.word, look.amount), head: look.head };
  };
  const keep = async ({ effects }) => (views[viewName()] = await numbers(effects, size()));

  const refresh = () => {
    const count = size(), effect = new Float64Array(count).fill(NaN), kind = new Int32Array(count).fill(-1);
    const one = look.word ? known(look.word, look.amount) : -1;
    if (look.word && (look.head >= 0 || one < 0)) effect.set(views[viewName()]);
    else
      for (let k = 0; k < state.kinds.length; k++) {
        if (look.word && k !== one) continue;
        for (let n = 0; n < count; n++) {
          const value = grid[k * count + n];
          if (!Number.isNaN(value) && !(Math.abs(value) <= Math.abs(effect[n]))) {
            effect[n] = value;
            kind[n] = k;
          }
        }
      }
    let largest = 0;
    for (const value of effect) if (Math.abs(value) > largest) largest = Math.abs(value);
    shown = { effect, kind, largest };
    return shown;
  };

  const at = (layer, token) => {
    const n = layer * state.tokens.length + token, k = shown.kind[n];
    const made = k < 0 ? { word: look.word, amount: look.amount } : parts(state.kinds[k]);
    return { layer, token, effect: shown.effect[n], ...made, trusted: trusted && k >= 0 ? trusted[k * size() + n] : NaN };
  };

  // The cell of a token: in the layer that is looked at, or where the effect is largest.
  const ofToken = (token) => {
    if (look.layer !== STRONGEST) return at(look.layer, token);
    let best = at(0, token);
    for (let layer = 1; layer < state.layers.length; layer++) {
      const cell = at(layer, token);
      if (!(Math.abs(cell.effect) <= Math.abs(best.effect))) best = Number.isNaN(cell.effect) ? best : cell;
    }
    return best;
  };

  // The shade grows with the root of the effect, so that small ones can be seen.
  const shade = (effect, largest) => (largest && !Number.isNaN(effect) ? 0.6 * Math.sqrt(Math.abs(effect) / largest) : 0);
  const css = (effect, alpha) => `rgba(${effect > 0 ? "0,114,178" : "213,94,0"},${alpha})`;

  return { look, take, missing, keep, refresh, at, ofToken, shade, css, known, kindText, parts, grid: () => grid, state: () => state };
})();
