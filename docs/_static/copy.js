// A button on each block of code that copies what can be pasted: of a console, the commands without prompts and output.
"use strict";
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
