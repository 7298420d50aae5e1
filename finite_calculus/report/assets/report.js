// Three things: the ledger's filter, long tables, which come with `viewer`, and figures to keep as files.
(() => {
  for (const ledger of document.querySelectorAll(".ledger")) {
    const find = ledger.querySelector(".find"), pick = ledger.querySelector(".pick");
    const entries = [...ledger.querySelectorAll(".entry")];
    const words = entries.map((entry) => entry.textContent.toLowerCase());
    const update = () => {
      const wanted = find.value.trim().toLowerCase();
      let shown = 0;
      entries.forEach((entry, n) => {
        const keep = words[n].includes(wanted) && (!pick.value || entry.dataset.status.split(" ").includes(pick.value));
        entry.hidden = !keep;
        shown += keep;
      });
      ledger.querySelector(".count").textContent = shown ? `${shown} of ${entries.length}` : `None of ${entries.length} has these words and this status.`;
    };
    find.addEventListener("input", update);
    pick.addEventListener("change", update);
    update();
  }

  const openTarget = () => {
    const target = location.hash && document.getElementById(decodeURIComponent(location.hash.slice(1)));
    if (target && target.tagName === "DETAILS") {
      target.hidden = false;
      target.open = true;
      target.scrollIntoView();
    }
  };
  addEventListener("hashchange", openTarget);
  openTarget();

  for (const button of document.querySelectorAll(".save")) {
    button.addEventListener("click", () => {
      const drawing = button.closest("figure").querySelector("svg").outerHTML;
      const printed = drawing.replace(/var\(--[a-z-]+, (#[0-9a-f]{6})\)/g, "$1");
      viewer.save(`${button.dataset.name}.svg`, "image/svg+xml", printed);
    });
  }

  // On a narrow screen the contents would fill it.
  if (matchMedia("(max-width:52rem)").matches) document.getElementById("contents").open = false;

  // A table is unpacked when it comes near the view.
  const watch = new IntersectionObserver((seen) => {
    for (const { isIntersecting, target } of seen)
      if (isIntersecting) {
        watch.unobserve(target);
        viewer.drawPacked(target);
      }
  }, { rootMargin: "600px" });
  document.querySelectorAll(".long").forEach((place) => watch.observe(place));
})();
