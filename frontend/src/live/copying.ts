/** A button on every block of code that copies it. */

export function addCopyButtons(root: ParentNode, word: (name: string) => string): void {
  if (!("clipboard" in navigator)) {
    return;
  }
  for (const block of root.querySelectorAll<HTMLElement>(".response-text pre:not(.live-tail)")) {
    if (block.parentElement?.classList.contains("copied-code") !== true) {
      addCopyButton(block, "tool copy", word);
    }
  }
}

export function addCopyButton(block: HTMLElement, look: string, word: (name: string) => string): void {
  const holder = document.createElement("div");
  holder.className = "copied-code";
  block.replaceWith(holder);
  const button = document.createElement("button");
  button.type = "button";
  button.className = look;
  button.textContent = word("copy");
  button.addEventListener("click", () => void copy(button, block, word));
  holder.append(block, button);
}

async function copy(button: HTMLElement, block: HTMLElement, word: (name: string) => string): Promise<void> {
  try {
    await navigator.clipboard.writeText(block.querySelector("code")?.textContent ?? block.textContent ?? "");
    button.textContent = word("copied");
    setTimeout(() => (button.textContent = word("copy")), 2000);
  } catch {
    button.remove();
  }
}
