// The colours are those of a light page; the page's style restyles what is written and ruled.
{
  const config = {
    background: "transparent", font: "system-ui, sans-serif", view: { stroke: null },
    axis: { labelColor: "#5d6870", titleColor: "#5d6870", gridColor: "#d9dee2", domainColor: "#d9dee2", tickColor: "#d9dee2", titleFontWeight: "normal" },
    legend: { labelColor: "#5d6870", titleColor: "#5d6870" },
  };
  const SMALL_PIXELS = 480;
  const draw = (place) => {
    if (place.dataset.drawn || place.closest("details:not([open])")) return;
    place.dataset.drawn = "1";
    const spec = JSON.parse(document.getElementById(place.dataset.spec).textContent);
    const small = place.clientWidth < SMALL_PIXELS;
    // On a phone the numbers in the cells of a heatmap would overlap, and long labels would leave no room.
    if (small && spec.layer) spec.layer = spec.layer.filter((one) => one.mark.type !== "text");
    const axis = { ...config.axis, labelLimit: small ? 96 : 200 };
    const legend = { ...config.legend, labelLimit: 200, gradientLength: 120, ...(small ? { orient: "bottom", columns: 2, labelLimit: 120 } : {}) };
    vegaEmbed(place, spec, { actions: false, renderer: "svg", config: { ...config, axis, legend } });
  };
  const drawAll = () => document.querySelectorAll(".chart").forEach(draw);
  for (const fold of document.querySelectorAll("details")) fold.addEventListener("toggle", drawAll);
  // A link to a folded board opens it.
  const unfold = () => document.getElementById(location.hash.slice(1))?.querySelector("details.group")?.setAttribute("open", "");
  addEventListener("hashchange", unfold);
  unfold();
  drawAll();
}
