// What the pages do in a browser; without it they are whole, too. Nothing is loaded from anywhere else.
"use strict";

// A button on each block of code that copies what can be pasted: of a console, the commands without prompts and output.
document.addEventListener("DOMContentLoaded", () => {
  for (const block of document.querySelectorAll("div.highlight")) {
    if (block.closest(".highlight-text, .highlight-none")) continue; // what a program has printed
    const pre = block.querySelector("pre");
    if (!pre) continue;
    const button = document.createElement("button");
    const say = (text) => {
      button.textContent = text;
      button.title = text;
    };
    button.type = "button";
    button.className = "copy";
    say("Copy");
    button.addEventListener("click", async () => {
      const copy = pre.cloneNode(true);
      for (const part of copy.querySelectorAll(".gp, .go, .linenos")) part.remove();
      const lines = copy.textContent.split("\n");
      const console = block.closest(".highlight-console");
      const text = (console ? lines.filter((line) => line.trim()) : lines).join("\n").trim() + "\n";
      try {
        await navigator.clipboard.writeText(text);
        say("Copied");
      } catch {
        // Without https there is no clipboard: what would have been copied is shown, to be copied by hand.
        window.prompt("Copy this:", text);
      }
      setTimeout(() => say("Copy"), 1500);
    });
    block.append(button);
  }
});

// A table that is wider than a narrow screen, or squeezed until a row is a third of one, becomes a list there (wide.css):
// each cell with the heading of its column.
document.addEventListener("DOMContentLoaded", () => {
  const folds = document.querySelectorAll("details.fold");
  folds.forEach((fold) => (fold.open = true)); // what is folded has no width
  for (const table of document.querySelectorAll("article table.docutils")) {
    const titles = [...table.querySelectorAll("thead th")].map((title) => title.textContent.trim());
    const frame = table.parentElement;
    const squeezed = innerWidth < 736 && [...table.rows].some((row) => row.offsetHeight > 220);
    if ((frame.scrollWidth <= frame.clientWidth && !squeezed) || titles.length < 2) continue;
    for (const row of table.querySelectorAll("tbody tr")) {
      [...row.cells].forEach((cell, place) => {
        cell.dataset.title = titles[place] || "";
        cell.classList.toggle("empty", !cell.textContent.trim());
      });
    }
    table.classList.add("listed", "crowded");
  }
  folds.forEach((fold) => (fold.open = false));
});

// Folded sections (conf.py) open for a reader who follows a link into one, prints the page, or looks for a word in the box above.
document.addEventListener("DOMContentLoaded", () => {
  const folds = [...document.querySelectorAll("details.fold")];
  if (!folds.length) return;
  const open = () => {
    const target = location.hash && document.getElementById(decodeURIComponent(location.hash.slice(1)));
    if (!target) return;
    for (const fold of folds) {
      if (fold.contains(target) || fold.parentElement === target) fold.open = true;
    }
    target.scrollIntoView();
  };
  addEventListener("hashchange", open);
  addEventListener("beforeprint", () => folds.forEach((fold) => (fold.open = true)));
  open();
  const box = document.createElement("input");
  box.type = "search";
  box.className = "find";
  box.placeholder = "Find an entry on this page";
  box.setAttribute("aria-label", box.placeholder);
  box.addEventListener("input", () => {
    const word = box.value.trim().toLowerCase();
    for (const fold of folds) {
      let some = fold.parentElement.querySelector("h2, h3").textContent.toLowerCase().includes(word);
      for (const row of fold.querySelectorAll("tbody tr")) {
        const here = row.textContent.toLowerCase().includes(word);
        row.hidden = !here;
        some ||= here;
      }
      fold.open = Boolean(word) && some;
      fold.parentElement.hidden = !some;
    }
  });
  document.querySelector("article h1").after(box);
});
