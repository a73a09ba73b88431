// The page is complete without this: it adds a filter to the gallery, arrow keys to step through
// the pairs, and a hint at tables that go on to the right.
(() => {
  for (const list of document.querySelectorAll("ol.pairs")) {
    const cards = [...list.children];
    cards.forEach((card) => { card.tabIndex = 0; });
    list.addEventListener("keydown", (event) => {
      const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
      if (!step) return;
      const seen = cards.filter((card) => !card.hidden);
      const next = seen[seen.indexOf(document.activeElement) + step];
      if (next) { event.preventDefault(); next.focus(); }
    });
  }
  for (const box of document.querySelectorAll(".scroll")) {
    const look = () => {
      box.toggleAttribute("data-wide", box.scrollWidth > box.clientWidth + 1);
      box.toggleAttribute("data-more", box.scrollLeft + box.clientWidth < box.scrollWidth - 1);
    };
    box.addEventListener("scroll", look, { passive: true });
    new ResizeObserver(look).observe(box);
  }
  const choice = document.querySelector("#gallery-filter");
  if (!choice) return;
  choice.closest("p").hidden = false;
  choice.addEventListener("change", () => {
    for (const card of document.querySelectorAll("#gallery .pairs > li")) {
      card.hidden = choice.value !== "" && card.dataset.circumstance !== choice.value;
    }
  });
})();
