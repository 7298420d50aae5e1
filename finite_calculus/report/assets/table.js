"use strict";
// What report and explorer share: packed numbers, how a number is written, and long tables drawn as they scroll.
const viewer = (() => {
  const ROW = 26; // height of a row in pixels, as in the style sheet
  const EXTRA = 12; // rows drawn beyond each edge of the view

  const unpack = async (text, count, width) => {
    const bytes = Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));
    const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"));
    const planes = new Uint8Array(await new Response(stream).arrayBuffer());
    const whole = new Uint8Array(count * width);
    for (let byte = 0; byte < width; byte++)
      for (let n = 0; n < count; n++) whole[n * width + byte] = planes[byte * count + n];
    return whole.buffer;
  };

  const shown = (value, kind) => {
    if (Number.isNaN(value)) return "–";
    if (kind === "int" || value === 0) return String(value);
    const size = Math.abs(value);
    if (size >= 1e-3 && size < 1e5) return String(Number(value.toPrecision(4)));
    return Number.isFinite(value) ? value.toExponential(2) : String(value);
  };

  const readColumn = async (column, count) => {
    const word = column.kind === "word";
    const buffer = await unpack(column.data, count, word ? 4 : 8);
    const values = word ? new Uint32Array(buffer) : new Float64Array(buffer);
    const text = (n) => (word ? column.words[values[n]] : shown(values[n], column.kind));
    const rank = word ? ranks(column.words) : null;
    const key = (n) => (word ? rank[values[n]] : values[n]);
    const longest = word
      ? Math.max(...column.words.map((each) => [...each].length), 1)
      : 10;
    const width = Math.min(Math.max(longest, column.name.length + 2), 40);
    return { name: column.name, numeric: !word, text, key, width };
  };

  const ranks = (words) => {
    const order = [...words.keys()].sort((a, b) => (words[a] < words[b] ? -1 : 1));
    const rank = new Uint32Array(words.length);
    order.forEach((word, place) => (rank[word] = place));
    return rank;
  };

  const drawPacked = async (place) => {
    const data = JSON.parse(place.querySelector("script").textContent);
    const columns = await Promise.all(data.columns.map((column) => readColumn(column, data.rows)));
    drawTable(place, place.dataset.title, columns, data.rows);
  };

  // A column has a name, whether it is numeric, the text and the sort key of a row, and a width in letters.
  // `chosen` is called with the row that is pressed.
  const drawTable = (place, title, columns, rows, chosen) => {
    let order = Uint32Array.from({ length: rows }, (_, n) => n);
    let sorted = { column: -1, sign: 1 };

    const bar = document.createElement("div");
    bar.className = "bar";
    const find = document.createElement("input");
    find.type = "search";
    find.placeholder = "rows with …";
    find.setAttribute("aria-label", `Find rows of ${title}`);
    const count = document.createElement("output");
    bar.append(find, count);

    const view = document.createElement("div");
    view.className = "view";
    view.tabIndex = 0;
    view.setAttribute("role", "region");
    view.setAttribute("aria-label", title);
    const head = document.createElement("div");
    head.className = "head";
    const grid = columns.map((column) => `calc(${column.width}ch + var(--cell-padding))`).join(" ");
    head.style.gridTemplateColumns = grid;
    const body = document.createElement("div");
    body.className = "rows";
    body.style.position = "relative";
    columns.forEach((column, n) => {
      const button = document.createElement("button");
      button.type = "button";
      button.textContent = column.name;
      if (column.numeric) button.className = "number";
      button.addEventListener("click", () => {
        sorted = { column: n, sign: sorted.column === n ? -sorted.sign : 1 };
        [...head.children].forEach((each) => each.removeAttribute("aria-sort"));
        refresh();
      });
      head.append(button);
    });
    view.append(head, body);
    place.append(bar, view);

    const paint = () => {
      const first = Math.max(0, Math.floor(view.scrollTop / ROW) - EXTRA);
      const last = Math.min(order.length, Math.ceil((view.scrollTop + view.clientHeight) / ROW) + EXTRA);
      const drawn = [];
      for (let n = first; n < last; n++) {
        const row = document.createElement(chosen ? "button" : "div");
        row.className = "row";
        if (chosen) {
          row.type = "button";
          row.addEventListener("click", () => chosen(order[n]));
        }
        row.style.cssText = `top:${n * ROW}px;grid-template-columns:${grid}`;
        for (const column of columns) {
          const cell = document.createElement("span");
          cell.textContent = column.text(order[n]);
          if (column.numeric) cell.className = "number";
          row.append(cell);
        }
        drawn.push(row);
      }
      body.replaceChildren(...drawn);
    };

    const refresh = () => {
      const wanted = find.value.trim().toLowerCase();
      const kept = [];
      for (let n = 0; n < rows; n++)
        if (!wanted || columns.some((column) => column.text(n).toLowerCase().includes(wanted))) kept.push(n);
      if (sorted.column >= 0) {
        const { key } = columns[sorted.column];
        const sign = sorted.sign;
        // What is not a number comes last, in either direction.
        kept.sort((a, b) => {
          const x = key(a), y = key(b);
          if (Number.isNaN(x) || Number.isNaN(y)) return Number.isNaN(x) - Number.isNaN(y);
          return x === y ? a - b : (x < y ? -sign : sign);
        });
      }
      order = Uint32Array.from(kept);
      body.style.height = `${order.length * ROW}px`;
      count.textContent = `${order.length.toLocaleString("en")} of ${rows.toLocaleString("en")} rows`;
      view.scrollTop = 0;
      paint();
    };
    let waiting = 0;
    view.addEventListener("scroll", () => {
      if (!waiting) waiting = requestAnimationFrame(() => ((waiting = 0), paint()));
    }, { passive: true });
    find.addEventListener("input", refresh);
    refresh();
  };

  const save = (name, type, text) => {
    const link = document.createElement("a");
    link.href = URL.createObjectURL(new Blob([text], { type }));
    link.download = name;
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 1000);
  };

  return { unpack, shown, drawPacked, drawTable, save };
})();
