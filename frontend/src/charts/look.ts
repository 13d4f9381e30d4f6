/** The page's own colours and type. Colours stay variables, so a change of theme reaches the chart at once. */
export function look(place: HTMLElement): Record<string, unknown> {
  const { fontFamily } = getComputedStyle(place);
  const ink = { labelColor: "var(--ink-soft)", titleColor: "var(--ink-soft)", titleFontWeight: 500 };
  const type = { labelFontSize: 12, titleFontSize: 12 };
  return {
    aria: false,
    background: "transparent",
    font: fontFamily,
    axis: { ...ink, ...type, domainColor: "var(--line)", gridColor: "var(--line)", tickColor: "var(--line)" },
    legend: { ...ink, ...type },
    header: { ...ink, ...type },
    title: { color: "var(--ink)", subtitleColor: "var(--ink-soft)" },
    view: { stroke: "transparent" },
  };
}
