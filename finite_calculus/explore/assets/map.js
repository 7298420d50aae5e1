// The map of layers by tokens: a canvas that is read with the arrow keys or the mouse.
const drawMap = (canvas, says, describe, pick) => {
  const LEFT = 42, BOTTOM = 32;
  let cursor = { layer: 0, token: 0 }, wide = 8, high = 12, state = null, marks = new Set(), largest = 0;

  const paint = () => {
    const style = getComputedStyle(document.documentElement);
    const [ink, line] = ["--ink", "--line"].map((name) => style.getPropertyValue(name).trim());
    const layers = state.layers.length, tokens = state.tokens.length;
    const room = canvas.parentElement.clientWidth - LEFT - 2;
    wide = Math.max(3, Math.min(40, Math.floor(room / tokens)));
    high = layers > 12 ? 12 : 20;
    const width = LEFT + wide * tokens + 1, height = high * layers + BOTTOM + 1, scale = devicePixelRatio || 1;
    [canvas.width, canvas.height] = [width * scale, height * scale];
    canvas.style.width = `${width}px`;
    canvas.style.height = `${height}px`;
    const draw = canvas.getContext("2d");
    draw.scale(scale, scale);
    draw.font = "11px system-ui, sans-serif";
    draw.fillStyle = draw.strokeStyle = ink;
    draw.textAlign = "right";
    draw.textBaseline = "middle";
    // The last layer is on top, as the model is drawn elsewhere.
    const top = (layer) => (layers - 1 - layer) * high;
    for (let layer = 0; layer < layers; layer += layers > 8 ? 5 : 1)
      draw.fillText(String(state.layers[layer]), LEFT - 6, top(layer) + high / 2);
    draw.textAlign = "center";
    const step = [1, 2, 5, 10, 20, 50, 100, 200, 500, 1000].find((each) => each * wide >= 28) || 2000;
    for (let token = 0; token < tokens; token += step)
      draw.fillText(String(token), LEFT + (token + 0.5) * wide, height - BOTTOM + 9);
    draw.textAlign = "left";
    draw.fillText("token", LEFT, height - 6);
    draw.save();
    draw.rotate(-Math.PI / 2);
    draw.textAlign = "right";
    draw.fillText("layer", 0, 7);
    draw.restore();
    for (let layer = 0; layer < layers; layer++)
      for (let token = 0; token < tokens; token++) {
        const { effect } = colours.at(layer, token), x = LEFT + token * wide, y = top(layer);
        if (Number.isNaN(effect)) {
          draw.fillStyle = line;
          draw.fillRect(x + wide / 2 - 1, y + high / 2 - 1, 2, 2);
          continue;
        }
        draw.fillStyle = colours.css(effect, colours.shade(effect, largest) / 0.6);
        draw.fillRect(x, y, wide, high);
        // In grey the sign is told by a stroke.
        if (effect < 0 && Math.abs(effect) > largest / 25) {
          draw.fillStyle = ink;
          draw.fillRect(x + wide / 2 - 1.5, y + high / 2 - 0.5, 3, 1);
        }
        if (marks.has(`${layer} ${token}`)) {
          draw.beginPath();
          draw.moveTo(x + 1, y + 1);
          draw.lineTo(x + wide - 1, y + high - 1);
          draw.moveTo(x + wide - 1, y + 1);
          draw.lineTo(x + 1, y + high - 1);
          draw.stroke();
        }
      }
    draw.strokeStyle = line;
    draw.strokeRect(LEFT - 0.5, 0.5, wide * tokens, high * layers);
    draw.strokeStyle = ink;
    draw.lineWidth = 1.5;
    draw.strokeRect(LEFT + cursor.token * wide + 0.5, top(cursor.layer) + 0.5, wide - 1, high - 1);
  };

  const move = (layer, token) => {
    cursor = {
      layer: Math.min(Math.max(layer, 0), state.layers.length - 1),
      token: Math.min(Math.max(token, 0), state.tokens.length - 1),
    };
    says.textContent = describe(colours.at(cursor.layer, cursor.token));
    paint();
  };
  const under = (event) => {
    const box = canvas.getBoundingClientRect();
    const token = Math.floor((event.clientX - box.left - LEFT) / wide);
    const layer = state.layers.length - 1 - Math.floor((event.clientY - box.top) / high);
    return state.layers[layer] === undefined || state.tokens[token] === undefined ? null : [layer, token];
  };
  canvas.addEventListener("pointermove", (event) => {
    const place = under(event);
    if (place && (place[0] !== cursor.layer || place[1] !== cursor.token)) move(...place);
  });
  canvas.addEventListener("click", (event) => {
    const place = under(event);
    if (!place) return;
    move(...place);
    pick(colours.at(...place));
  });
  canvas.addEventListener("keydown", (event) => {
    const by = { ArrowUp: [1, 0], ArrowDown: [-1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] }[event.key];
    if (by) move(cursor.layer + by[0], cursor.token + by[1]);
    else if (event.key === "Enter" || event.key === " ") pick(colours.at(cursor.layer, cursor.token));
    else return;
    event.preventDefault();
  });
  const repaint = () => state && paint();
  addEventListener("resize", repaint);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", repaint);

  return {
    show: (given, most) => {
      if (!state || given.tokens.length !== state.tokens.length || given.prompt !== state.prompt) {
        cursor = { layer: 0, token: 0 };
        marks = new Set();
      }
      [state, largest] = [given, most];
      paint();
    },
    follow: (cell) => {
      cursor = { layer: cell.layer, token: cell.token };
      paint();
    },
    mark: (cells) => {
      marks = new Set(cells);
      paint();
    },
  };
};
