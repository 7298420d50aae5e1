// Requested attention ratios of a head, each with a slider; whether they can be met is asked as they move.
const ratioRows = (box, says, ask) => {
  const { el } = panels;
  let state = null, rows = [], waiting = 0, latest = 0;

  const text = ({ above, below, ratio }) => `${above.value}:${below.value}=${Number(ratio.value)}`;
  const requests = () => rows.map(text);

  const update = async () => {
    const turn = ++latest;
    try {
      const found = await ask(requests());
      if (turn !== latest) return;
      says.textContent = `${found.feasible ? "Feasible" : "NOT feasible"}: an edit of ${viewer.shown(found.size)} of the head's input, rank ${found.rank}.`;
      rows.forEach((row, n) => (row.told.textContent = `now ${viewer.shown(found.now[n])}, then ${viewer.shown(found.achieved[n])}`));
    } catch (error) {
      if (turn !== latest) return;
      says.textContent = error.message;
      rows.forEach((row) => (row.told.textContent = ""));
    }
  };
  const soon = () => {
    clearTimeout(waiting);
    waiting = setTimeout(update, 60);
  };

  const tokens = (label, chosen) => {
    const select = el("select", { ariaLabel: label });
    state.tokens.forEach((token, n) => select.append(el("option", { value: String(n), textContent: `${n} ${panels.quoted(token)}`, selected: n === chosen })));
    select.addEventListener("change", soon);
    return select;
  };

  const add = () => {
    const last = state.tokens.length - 1, number = rows.length;
    const above = tokens("attended", Math.max(0, last - 1 - number)), below = tokens("as much as", Math.max(0, last - 2 - number));
    const slide = el("input", { type: "range", min: "-10", max: "10", step: "0.1", value: "1", ariaLabel: "ratio, as a power of two" });
    const ratio = el("input", { type: "number", min: "0", step: "any", value: "2", ariaLabel: "ratio" });
    const told = el("output");
    const drop = el("button", { type: "button", textContent: "Remove" });
    const line = el("div", { className: "ratio" }, above, "attended", ratio, "times as much as", below, slide, drop, told);
    const row = { above, below, ratio, told };
    slide.addEventListener("input", () => {
      ratio.value = String(Number((2 ** Number(slide.value)).toPrecision(4)));
      soon();
    });
    ratio.addEventListener("input", () => {
      if (Number(ratio.value) > 0) slide.value = String(Math.log2(Number(ratio.value)));
      soon();
    });
    drop.addEventListener("click", () => {
      rows = rows.filter((each) => each !== row);
      line.remove();
      if (rows.length) soon();
      else says.textContent = "";
    });
    rows.push(row);
    box.append(line);
    soon();
  };

  return {
    add,
    soon,
    requests,
    show: (given) => {
      if (state && state.prompt === given.prompt) return;
      state = given;
      rows = [];
      box.replaceChildren();
      says.textContent = "";
    },
  };
};
