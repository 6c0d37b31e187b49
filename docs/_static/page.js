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

// A table that is wider than a narrow screen becomes a list there (wide.css): each cell with the heading of its column.
document.addEventListener("DOMContentLoaded", () => {
  for (const table of document.querySelectorAll("article table.docutils")) {
    const titles = [...table.querySelectorAll("thead th")].map((title) => title.textContent.trim());
    if (table.offsetWidth <= table.parentElement.clientWidth || titles.length < 3) continue;
    for (const row of table.querySelectorAll("tbody tr")) {
      [...row.cells].forEach((cell, place) => (cell.dataset.title = titles[place] || ""));
    }
    table.classList.add("listed");
  }
});
