// The page: what is typed and picked goes to the server, what comes back is shown. A saved page asks nobody.
(() => {
  const { el, signed, quoted } = panels;
  const $ = (id) => document.getElementById(id);
  const saved = JSON.parse($("data").textContent);
  let state = null, span = null, focused = 0, busy = 0;

  const post = async (name, data) => {
    const answer = await fetch(name, { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(data) });
    const body = await answer.json().catch(() => ({ error: `The server refused ${name} (${answer.status}).` }));
    if (!answer.ok) throw new Error(body.error);
    return body;
  };
  const tell = (words) => {
    $("error").textContent = words;
    $("error").hidden = !words;
    if (words) $("error").scrollIntoView({ block: "nearest" });
  };
  // One thing at a time that runs the model: its button waits, and what is refused is said.
  const during = async (words, work) => {
    busy++;
    $("busy").textContent = words;
    const buttons = [...document.querySelectorAll("button.main, .live button, #picked button")].filter((each) => !each.disabled);
    buttons.forEach((each) => (each.disabled = true));
    const held = document.activeElement;
    try {
      tell("");
      await work();
    } catch (error) {
      tell(error instanceof TypeError ? "The server does not answer. Is finite-calculus explore still running?" : error.message);
    } finally {
      buttons.forEach((each) => (each.disabled = false));
      if (!--busy) $("busy").textContent = "";
      if (document.activeElement === document.body && held && held.isConnected) held.focus();
    }
  };

  const describe = ({ layer, token, effect, word, amount, trusted }) => {
    const place = `token ${token} ${quoted(state.tokens[token])}, layer ${state.layers[layer]}`;
    if (Number.isNaN(effect)) return `${place}: no such edit here`;
    const verdict = trusted === 1 ? ", to be trusted" : trusted === 0 ? ", not to be trusted" : "";
    return `${place}: ${colours.kindText(word, amount)} ${signed(effect)}${verdict}`;
  };
  const specification = (cell, tokens, head) => {
    const heads = head < 0 ? "" : `.${head}`, amount = cell.amount === null ? "" : `:${cell.amount}`;
    const place = tokens[0] === tokens[1] ? `${tokens[0]}` : `${tokens[0]}-${tokens[1]}`;
    return `${cell.word}:${state.layers[cell.layer]}${heads}:${place}${amount}`;
  };

  const map = drawMap($("map"), $("map-says"), describe, (cell) => choose(cell, [cell.token, cell.token]));
  const ratios = ratioRows($("ratios"), $("feasible"), (requests) => post("request", { ...steered(), ratios: requests }));
  const steered = () => ({ layer: Number($("steer-layer").value), head: Number($("steer-head").value) });

  // Picking.
  const choose = (cell, tokens) => {
    if (Number.isNaN(cell.effect)) return tell("There is no such edit at this token: the layer does not attend to it, or has no positions.");
    map.follow({ ...cell, token: tokens[0] });
    if (saved) return ($("picked").replaceChildren(el("p", { textContent: `${describe(cell)}.` }), el("p", { className: "quiet", textContent: "This page was saved; a live explorer splits, certifies and executes." })));
    const edit = specification(cell, tokens, colours.look.head);
    return during("predicting …", async () => showPicked(await post("pick", { edits: [edit] })));
  };
  const showPicked = (picked) => {
    const done = el("div", { id: "executed", role: "status" });
    const run = el("button", { type: "button", className: "main", id: "execute", textContent: "Execute" });
    const push = el("button", { type: "button", id: "push", textContent: "Put on the stack" });
    run.addEventListener("click", () => during("executing …", async () => {
      const { step } = await post("execute", { edits: picked.edits });
      done.replaceChildren(panels.execution(step));
      addStep(step);
    }));
    push.addEventListener("click", () => during("predicting …", async () => showStack(await post("stack", { edits: [...state.stack, ...picked.edits] }))));
    $("picked").replaceChildren(panels.prediction(picked, state), el("p", {}, run, " ", push), done);
  };
  const addStep = (step) => {
    state.steps.push(step);
    $("steps").append(panels.step(step));
  };
  const showStack = ({ stack, undo, picked }) => {
    Object.assign(state, { stack, undo });
    const change = (edits) => during("predicting …", async () => showStack(await post("stack", { edits })));
    const list = el("ul", {}, ...stack.map((edit, n) => {
      const drop = el("button", { type: "button", textContent: "Remove", ariaLabel: `Remove ${edit}` });
      drop.addEventListener("click", () => change(stack.filter((_, other) => other !== n)));
      return el("li", {}, el("code", { textContent: edit }), drop);
    }));
    const buttons = [
      ["Execute together", "execute-stack", !stack.length, () => during("executing …", async () => addStep((await post("execute", { edits: stack })).step))],
      ["Undo", "undo", !undo, () => during("predicting …", async () => showStack(await post("undo", {})))],
      ["Clear", "clear", !stack.length, () => change([])],
    ].map(([words, id, disabled, run]) => {
      const button = el("button", { type: "button", id, textContent: words, disabled });
      button.addEventListener("click", run);
      return button;
    });
    const told = picked
      ? el("p", {}, el("span", { className: "figure", id: "stack-predicted", textContent: signed(picked.effect) }), ` predicted for ${stack.length > 1 ? `all ${stack.length} together` : "it"}, ${panels.direction(picked.effect, state)}`)
      : el("p", { className: "quiet", textContent: "Empty." });
    $("stack").replaceChildren(list, told, el("p", {}, ...buttons.flatMap((button) => [button, " "])));
  };

  // Tokens.
  const paintTokens = (largest) => {
    const box = $("tokens");
    if (box.children.length !== state.tokens.length || box.dataset.prompt !== state.prompt) {
      box.dataset.prompt = state.prompt;
      [focused, span] = [0, null];
      box.replaceChildren(...state.tokens.map((token, n) => {
        const node = el("span", { className: "token", role: "option", tabIndex: n ? -1 : 0, ariaSelected: "false", textContent: token.replaceAll("\n", "⏎\n") || "∅" });
        node.dataset.n = String(n);
        return node;
      }));
    }
    const cells = state.tokens.map((_, n) => colours.ofToken(n));
    [...box.children].forEach((node, n) => {
      const { effect } = cells[n], alpha = colours.shade(effect, largest);
      node.style.backgroundColor = colours.css(effect, alpha);
      node.style.borderBottomColor = alpha > 0.12 ? colours.css(effect, 1) : "transparent";
      node.style.borderBottomStyle = effect < 0 ? "dashed" : "solid";
      node.title = describe(cells[n]);
      node.ariaLabel = describe(cells[n]);
    });
  };
  const focusToken = (n, extend) => {
    const nodes = $("tokens").children, to = Math.min(Math.max(n, 0), nodes.length - 1);
    nodes[focused].tabIndex = -1;
    span = extend ? [span ? span[0] : focused, to] : [to, to];
    focused = to;
    nodes[to].tabIndex = 0;
    nodes[to].focus();
    const [low, high] = [Math.min(...span), Math.max(...span)];
    [...nodes].forEach((node, each) => (node.ariaSelected = String(each >= low && each <= high)));
    $("token-says").textContent = describe(colours.ofToken(to));
  };
  const pickSpan = () => {
    const [low, high] = [Math.min(...span), Math.max(...span)];
    let best = colours.ofToken(low);
    for (let n = low + 1; n <= high; n++) {
      const cell = colours.ofToken(n);
      if (Math.abs(cell.effect) > Math.abs(best.effect)) best = cell;
    }
    choose(best, [low, high]);
  };
  $("tokens").addEventListener("click", (event) => {
    const node = event.target.closest(".token");
    if (!node) return;
    focusToken(Number(node.dataset.n), event.shiftKey);
    pickSpan();
  });
  $("tokens").addEventListener("keydown", (event) => {
    const by = { ArrowLeft: -1, ArrowRight: 1, ArrowUp: -10, ArrowDown: 10, Home: -1e9, End: 1e9 }[event.key];
    if (by) focusToken(focused + by, event.shiftKey);
    else if (event.key === "Enter" || event.key === " ") {
      if (!span) focusToken(focused, false);
      pickSpan();
    } else return;
    event.preventDefault();
  });

  // What is looked at.
  const options = (select, pairs) => {
    const before = select.value;
    select.replaceChildren(...pairs.map(([value, words]) => el("option", { value: String(value), textContent: words })));
    if (pairs.some(([value]) => String(value) === before)) select.value = before;
  };
  const look = async () => {
    const word = state.words.find((each) => each.word === $("word").value);
    const number = Number($("amount").value);
    $("word-says").textContent = word ? word.says : "Of every kind and amount in “All candidates”, the one with the largest predicted effect.";
    $("amount").disabled = !word || word.usual === null;
    $("head").disabled = !word;
    Object.assign(colours.look, {
      word: word ? word.word : "",
      amount: word && word.usual !== null ? number : null,
      layer: Number($("layer").value),
      head: word ? Number($("head").value) : -1,
    });
    if (!word) $("head").value = "-1";
    const question = colours.missing();
    if (question && saved) return tell("This page was saved without these colours: they are those that were looked at, and every head of the edit that was chosen then.");
    if (saved) tell("");
    if (question) return during("colouring …", async () => (await colours.keep(await post("colours", question)), paint()));
    return paint();
  };
  const paint = () => {
    const { largest } = colours.refresh();
    const shown = colours.look.layer < 0 ? largest : Math.max(...state.tokens.map((_, n) => Math.abs(colours.at(colours.look.layer, n).effect) || 0));
    paintTokens(shown);
    map.show(state, largest);
    $("scale").textContent = `full colour at ±${viewer.shown(shown)}; a quarter of that is half as strong`;
  };
  $("word").addEventListener("change", () => {
    const word = state.words.find((each) => each.word === $("word").value);
    $("amount").value = word && word.usual !== null ? String(word.usual) : "";
    look();
  });
  for (const id of ["amount", "layer", "head"]) $(id).addEventListener("change", look);

  // Everything that a question brings.
  const show = async (given) => {
    state = given;
    $("model").textContent = state.model;
    $("in-chat").hidden = !state.chat;
    if (!state.tokens) return;
    await colours.take(state);
    $("result").hidden = $("exports").hidden = false;
    const preferred = state.baseline >= 0 ? state.answer : state.versus;
    $("headline").replaceChildren(el("b", { textContent: quoted(state.answer) }), " against ", el("b", { textContent: quoted(state.versus) }), `: margin ${signed(state.baseline)}, the model prefers ${quoted(preferred)}. ${state.tokens.length} tokens, ${state.layers.length} layers.`);
    $("towards").textContent = `towards ${quoted(state.answer)}`;
    $("against").textContent = $("stroke").textContent = `towards ${quoted(state.versus)}`;
    options($("word"), [["", "strongest of all"], ...state.words.map(({ word }) => [word, word])]);
    options($("layer"), [[-1, "strongest of all"], ...state.layers.map((layer, n) => [n, layer])]);
    const heads = [...Array(Math.max(...state.heads)).keys()];
    options($("head"), [[-1, "all together"], ...heads.map((head) => [head, head])]);
    options($("steer-layer"), state.layers.map((layer) => [layer, layer]));
    options($("steer-head"), heads.map((head) => [head, head]));
    ratios.show(state);
    await look();
    showStack(state);
    $("steps").replaceChildren(...state.steps.map(panels.step));
    $("compared").replaceChildren(...(state.donor ? panels.compared(state) : []));
    // A page that is loaded again has forgotten what was typed.
    if (!$("prompt").value) for (const name of ["prompt", "answer", "versus"]) $(name).value = state[name];
    if (!$("donor-prompt").value) $("donor-prompt").value = state.prompt;
    $("all").open = false;
    $("all").querySelector(".long").replaceChildren();
  };
  $("all").addEventListener("toggle", () => {
    const place = $("all").querySelector(".long");
    if (!$("all").open || place.children.length) return;
    const grid = colours.grid(), count = state.tokens.length, cells = state.layers.length * count;
    const rows = Uint32Array.from([...grid.keys()].filter((n) => !Number.isNaN(grid[n])).sort((a, b) => Math.abs(grid[b]) - Math.abs(grid[a])));
    const layer = (n) => Math.floor((rows[n] % cells) / count), token = (n) => rows[n] % count, kind = (n) => Math.floor(rows[n] / cells);
    const columns = [
      { name: "layer", numeric: true, text: (n) => String(state.layers[layer(n)]), key: layer, width: 7 },
      { name: "token", numeric: true, text: (n) => String(token(n)), key: token, width: 7 },
      { name: "predicted", numeric: true, text: (n) => signed(grid[rows[n]]), key: (n) => grid[rows[n]], width: 12 },
      { name: "edit", numeric: false, text: (n) => state.kinds[kind(n)], key: kind, width: 14 },
      { name: "text", numeric: false, text: (n) => quoted(state.tokens[token(n)]), key: (n) => state.tokens[token(n)], width: 18 },
    ];
    viewer.drawTable(place, "All candidates", columns, rows.length, (n) => choose({ layer: layer(n), token: token(n), effect: grid[rows[n]], trusted: NaN, ...colours.parts(state.kinds[kind(n)]) }, [token(n), token(n)]));
  });

  // Forms and buttons.
  const on = (id, event, words, work) => $(id).addEventListener(event, (happened) => {
    happened.preventDefault();
    during(words, work);
  });
  on("ask", "submit", "capturing: the prefix, the last query and one backward pass …", async () => {
    const asked = { prompt: $("prompt").value, answer: $("answer").value, versus: $("versus").value, chat: $("chat").checked };
    const given = await post("ask", asked);
    $("donor-prompt").value = "";
    $("picked").replaceChildren(el("p", { className: "quiet", textContent: "Pick a token, a span or a cell of the map." }));
    await show(given);
  });
  on("donor-form", "submit", "capturing the donor …", async () => show(await post("donor", { prompt: $("donor-prompt").value })));
  on("calibrate", "click", "executing a sample of the candidates: this may take minutes …", async () => show(await post("calibrate", {})));
  on("run-steer", "click", "steering …", async () => addStep((await post("steer", { ...steered(), ratios: ratios.requests() })).step));
  on("run-evict", "click", "evicting …", async () => {
    const { step } = await post("evict", { budget: Number($("budget").value), protect: $("protect").value.trim() });
    addStep(step);
    map.mark(step.detail.layers.flatMap((layer, n) => step.detail.tokens[n].map((token) => `${state.layers.indexOf(layer)} ${token}`)));
    $("map-says").textContent = "Crossed cells are evicted.";
  });
  for (const [id, action, type] of [["get-script", "script", "text/x-python"], ["get-page", "page", "text/html"]])
    on(id, "click", "exporting …", async () => {
      // Heads are kept for the edit that is looked at.
      const { word, amount } = colours.look, kind = word && colours.kindText(word, amount);
      const { name, text } = await post(action, action === "page" ? { kind } : {});
      viewer.save(name, type, text);
    });
  $("example").addEventListener("click", () => {
    $("prompt").value = "Entity 01: A Entity 02: B Question: What is the label of Entity 02? Answer:";
    $("answer").value = $("versus").value = "";
    $("prompt").focus();
  });
  $("add-ratio").addEventListener("click", ratios.add);
  for (const id of ["steer-layer", "steer-head"]) $(id).addEventListener("change", ratios.soon);
  $("budget-slide").addEventListener("input", () => ($("budget").value = String(Number((10 ** Number($("budget-slide").value)).toPrecision(3)))));

  document.body.classList.toggle("saved", saved !== null);
  if (saved) show(saved);
  else during("", async () => show(await post("state", {})));
})();
