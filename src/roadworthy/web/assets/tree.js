"use strict";
// The event tree with the numbers of the watched window: a picture that the service draws, asked for again every few seconds.
(() => {
  const EVERY_MS = 5000, SOON_MS = 500, PATIENCE_MS = 10000, LEAST = 320;
  const section = document.querySelector("#tree"), picture = document.querySelector("#tree img");
  let shown = "";

  async function draw() {
    const token = sessionStorage.getItem("token"), width = Math.max(LEAST, Math.round(picture.clientWidth));
    const headers = token ? { Authorization: `Bearer ${token}` } : {};
    const answer = await fetch(`/v1/tree.svg?width=${width}`, { headers, cache: "no-store", signal: AbortSignal.timeout(PATIENCE_MS) });
    const text = await answer.text();
    if (!answer.ok || text === shown) return;
    shown = text;
    picture.src = `data:image/svg+xml,${encodeURIComponent(text)}`;
    picture.alt = new DOMParser().parseFromString((/<desc>.*?<\/desc>/.exec(text) || ["<desc/>"])[0], "text/xml").documentElement.textContent;
  }

  async function run() { // what was drawn last stays where there is no answer; that there is none stands at the top of the page
    for (;;) {
      const seen = !document.hidden && !section.hidden;
      if (seen) await draw().catch(() => {});
      await new Promise((next) => setTimeout(next, seen ? EVERY_MS : SOON_MS));
    }
  }
  run();
})();
