// What needs a script on every page: save a figure as SVG or PNG, copy a text, scroll by keyboard. Nothing is sent anywhere.
{
  const button = (text, label, act) => {
    const made = document.createElement("button");
    made.type = "button";
    made.textContent = text;
    made.setAttribute("aria-label", label);
    made.addEventListener("click", act);
    return made;
  };
  const download = (blob, name) => {
    const link = document.createElement("a");
    link.href = URL.createObjectURL(blob);
    link.download = name;
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 60000);
  };
  const picture = (figure) => figure.querySelector("svg");
  const source = (figure) => {
    const copy = picture(figure).cloneNode(true);
    copy.setAttribute("xmlns", "http://www.w3.org/2000/svg");
    const [, , width, height] = copy.getAttribute("viewBox").split(" ").map(Number);
    copy.setAttribute("width", width);
    copy.setAttribute("height", height);
    return { text: new XMLSerializer().serializeToString(copy), width, height };
  };
  const saveSvg = (figure, name) => download(new Blob([source(figure).text], { type: "image/svg+xml" }), `${name}.svg`);
  const savePng = async (figure, name) => {
    const { text, width, height } = source(figure);
    const image = new Image();
    image.src = `data:image/svg+xml;charset=utf-8,${encodeURIComponent(text)}`;
    await image.decode();
    const canvas = document.createElement("canvas");
    canvas.width = Math.ceil(2 * width);
    canvas.height = Math.ceil(2 * height);
    const pen = canvas.getContext("2d");
    pen.fillStyle = "white";
    pen.fillRect(0, 0, canvas.width, canvas.height);
    pen.drawImage(image, 0, 0, canvas.width, canvas.height);
    canvas.toBlob((blob) => download(blob, `${name}.png`), "image/png");
  };
  for (const figure of document.querySelectorAll("figure[data-name]")) {
    const caption = figure.querySelector("figcaption"), title = caption.textContent, name = figure.dataset.name;
    const kept = document.createElement("span");
    kept.className = "save";
    kept.append(
      button("SVG", `Save as SVG: ${title}`, () => picture(figure) && saveSvg(figure, name)),
      button("PNG", `Save as PNG: ${title}`, () => picture(figure) && savePng(figure, name)),
    );
    caption.append(" ", kept);
  }
  for (const text of document.querySelectorAll("pre.copied")) {
    const copy = button("Copy", "Copy the BibTeX entry", async () => {
      getSelection().selectAllChildren(text);
      try {
        await navigator.clipboard.writeText(text.textContent);
        copy.textContent = "Copied";
      } catch { copy.textContent = "Selected: copy it with the keyboard"; }
    });
    copy.className = "copy";
    text.before(copy);
  }

  // A table that is wider than the screen scrolls by itself: the keyboard must reach it.
  const scrolls = new ResizeObserver((seen) => {
    for (const { target } of seen) target.tabIndex = target.scrollWidth > target.clientWidth ? 0 : -1;
  });
  for (const wide of document.querySelectorAll(".wide")) scrolls.observe(wide);
}
