const dark = matchMedia("(prefers-color-scheme: dark)");
const look = () => {
  const style = getComputedStyle(document.documentElement);
  const [ink, line] = ["--soft", "--line"].map((name) => style.getPropertyValue(name).trim());
  return {
    background: "transparent", font: "system-ui, sans-serif", view: { stroke: null },
    axis: { labelColor: ink, titleColor: ink, gridColor: line, domainColor: line, tickColor: line, titleFontWeight: "normal" },
    legend: { labelColor: ink, titleColor: ink },
  };
};
const draw = () => {
  for (const place of document.querySelectorAll(".chart")) {
    const spec = JSON.parse(document.getElementById(place.dataset.spec).textContent);
    vegaEmbed(place, spec, { actions: false, renderer: "svg", config: look() });
  }
};
dark.addEventListener("change", draw);
draw();
