// What is said of edits: predictions, certificates, executions. Every text of a prompt is set as text.
const panels = (() => {
  const el = (tag, properties = {}, ...children) => {
    const node = Object.assign(document.createElement(tag), properties);
    node.append(...children.filter((child) => child !== null));
    return node;
  };
  const signed = (value) => (value === null ? "not finite" : (value > 0 ? "+" : value < 0 ? "−" : "") + viewer.shown(Math.abs(value)));
  const quoted = (text) => `“${text.replaceAll("\n", "⏎")}”`;

  // A table of numbers under its heads; the last column is words.
  const table = (label, heads, rows) =>
    el("div", { className: "scroll", tabIndex: 0, role: "region", ariaLabel: label },
      el("table", {},
        el("thead", {}, el("tr", {}, ...heads.map((head) => el("th", { scope: "col", textContent: head })))),
        el("tbody", {}, ...rows.map((row) => el("tr", {}, ...row.map((cell, n) => el("td", { className: n < row.length - 1 ? "number" : "", textContent: cell })))))));

  const bars = (rows) => {
    const largest = Math.max(...rows.map(([, value]) => Math.abs(value)), 1e-300);
    const box = el("div", { className: "bars" });
    for (const [name, value] of rows) {
      const bar = el("span", { className: `bar ${value > 0 ? "towards" : "against"}` });
      bar.style.left = `${value > 0 ? 50 : 50 - (50 * Math.abs(value)) / largest}%`;
      bar.style.width = `${(50 * Math.abs(value)) / largest}%`;
      box.append(el("span", { textContent: name }), el("span", { className: "track" }, bar), el("span", { className: "number", textContent: signed(value) }));
    }
    return box;
  };

  const split = (part) =>
    part.removes
      ? el("p", { className: "quiet", textContent: "A deletion changes the set of keys: there is no split into key, value and interaction." })
      : bars([["key", part.key], ["value", part.value], ["interaction", part.interaction], ["together", part.effect]]);

  const certificate = (part) => {
    const first = `First order says ${signed(part.first_order)}`;
    if (part.bound === null) return `${first}; no finite certificate for this combination with a deletion.`;
    return `${first}, certified to be within ${viewer.shown(part.bound)} of the exact local score, ${signed(part.effect)}.`;
  };

  const verdict = (picked) => {
    const large = picked.parts.find((part) => part.size !== null && part.size > 1);
    const band = picked.band;
    let kind = "", words = "Not judged: calibrate for a verdict on single tokens and the listed amounts, or execute it.";
    if (band && band.trusted) {
      kind = "good";
      words = `To be trusted: ${signed(band.corrected)} ± ${viewer.shown(band.band)} keeps its sign.`;
    } else if (band) {
      kind = "bad";
      words = `Not to be trusted: ${signed(band.corrected)} ± ${viewer.shown(band.band)}${band.band < Math.abs(band.corrected) ? "; the write is larger than the stream that it enters, or edits like it vary too much" : " may have either sign"}.`;
    } else if (large) {
      kind = "bad";
      words = `Not to be trusted: the changed write is ${viewer.shown(large.size)} times the stream that it enters.`;
    }
    return el("p", { className: `verdict ${kind}`, textContent: words });
  };

  const direction = (effect, state) => (effect ? `towards ${quoted(effect > 0 ? state.answer : state.versus)}` : "either way nothing");

  const prediction = (picked, state) =>
    el("div", {},
      el("p", {}, picked.names.join(" + "), " ", ...picked.edits.flatMap((edit, n) => [n ? " + " : "", el("code", { textContent: edit })])),
      el("p", {}, el("span", { className: "figure", id: "predicted", textContent: signed(picked.effect) }), ` predicted, ${direction(picked.effect, state)}`),
      ...picked.parts.flatMap((part) => [
        picked.parts.length > 1 ? el("h3", { textContent: `layer ${part.layer}` }) : null,
        split(part),
        el("p", { className: "quiet", textContent: certificate(part) }),
      ]),
      verdict(picked));

  const execution = (step) => {
    const { predicted, executed } = step.numbers, { local, floor } = step.detail;
    return el("div", {},
      el("p", {}, el("span", { className: "figure executed", textContent: signed(executed) }), ` executed; predicted ${signed(predicted)}, off by ${viewer.shown(Math.abs(executed - predicted))}${floor && Math.abs(executed) < floor ? `; below the noise floor of ${viewer.shown(floor)}, so not resolved` : ""}`),
      local && el("p", { className: `verdict ${local.within ? "good" : "bad"}`, textContent: `The write changed by ${viewer.shown(local.executed)}; it differs from the exact change by ${viewer.shown(local.error)}, ${local.within ? "within" : "BEYOND"} the ${viewer.shown(local.bound)} that rounding allows.` }));
  };

  // Numbers in rising order, those that follow each other as first–last.
  const runs = (numbers) => {
    const ends = [];
    for (const n of numbers) ends.length && ends[ends.length - 1][1] === n - 1 ? (ends[ends.length - 1][1] = n) : ends.push([n, n]);
    return ends.map(([first, last]) => (first === last ? `${first}` : `${first}–${last}`)).join(" ");
  };

  const eviction = (step) => {
    const { layers, tokens, divergence } = step.detail, { entries, figures, executed } = step.numbers;
    const rows = layers.map((layer, n) => [String(layer), String(entries[n]), viewer.shown(figures[n]), signed(executed[n]), divergence[n] === null ? "–" : viewer.shown(divergence[n]), runs(tokens[n])]);
    return el("details", {}, el("summary", { textContent: `${entries.reduce((a, b) => a + b, 0)} entries of ${layers.length} layers` }),
      table("Evicted entries by layer", ["layer", "lost", "‖Δo‖/‖o‖", "executed", "KL (nats)", "tokens"], rows));
  };

  const steering = ({ numbers }) =>
    el("p", { textContent: `${numbers.feasible ? "feasible" : "NOT feasible"}; ratios ${numbers.before.map((x) => viewer.shown(x)).join(", ")} became ${numbers.achieved.map((x) => viewer.shown(x)).join(", ")}; executed effect ${signed(numbers.executed)}` });

  const calibration = ({ numbers, detail }) =>
    el("p", { textContent: `${numbers.executed.toLocaleString("en")} executed; ${numbers.trusted.toLocaleString("en")} of ${detail.of.toLocaleString("en")} candidates are to be trusted` });

  const step = (each) => {
    const { numbers } = each;
    const shown = numbers.entries ? eviction(each) : numbers.achieved ? steering(each) : numbers.trusted !== undefined ? calibration(each) : execution(each);
    return el("li", {}, el("code", { textContent: each.title }), shown);
  };

  // Two prompts token by token; those that differ are marked.
  const compared = (state) => {
    const { donor, tokens } = state;
    const line = (name, own, other, baseline) =>
      el("div", {},
        el("p", { className: "quiet", textContent: `${name}: margin ${signed(baseline)}, ${direction(baseline, state)}` }),
        el("p", { className: "pair" }, ...own.map((token, n) => (token === other[n] ? token : el("mark", { textContent: token })))));
    return [el("h3", { textContent: "Prompt and donor, token by token" }), line("prompt", tokens, donor.tokens, state.baseline), line("donor", donor.tokens, tokens, donor.baseline)];
  };

  return { el, signed, quoted, direction, prediction, execution, step, compared };
})();
