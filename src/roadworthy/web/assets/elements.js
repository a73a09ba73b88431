"use strict";
// Parts of the page. Everything that came from outside goes in as text (textContent), never as markup.
const elements = (() => {
  const $ = (selector, from = document) => from.querySelector(selector);
  const put = (selector, text) => { const e = $(selector); if (e.textContent !== text) e.textContent = text; };
  const made = (tag, text, name) => { const e = document.createElement(tag); if (text != null) e.textContent = text; if (name) e.className = name; return e; };
  return { $, put, made };
})();
