// The theme and the language that a reader chose, on pages that are the same for all readers.
{
  const cookie = (name) => new RegExp(`(?:^|; )tiltyard_${name}=(\\w+)`).exec(document.cookie)?.[1];
  const page = document.documentElement;
  const address = new URL(location.href);
  const [theme, language] = [cookie("theme"), cookie("language")];
  if (language && language !== page.lang && !address.searchParams.has("in")) {
    address.searchParams.set("in", language);
    location.replace(address);
  }
  if (theme === "light" || theme === "dark") {
    const always = theme === "dark" ? "(min-width: 0)" : "(max-width: 0)";
    page.dataset.theme = theme;
    document.addEventListener("DOMContentLoaded", () => {
      for (const button of document.querySelectorAll("form.theme button[name=theme]")) {
        button.setAttribute("aria-pressed", String(button.value === theme));
      }
      for (const source of document.querySelectorAll("picture source")) {
        source.media = source.media.replaceAll("(prefers-color-scheme: dark)", always);
      }
      for (const chart of document.querySelectorAll("[data-spec-dark]")) {
        chart.dataset.spec = theme === "dark" ? chart.dataset.specDark : chart.dataset.spec;
        delete chart.dataset.specDark;
      }
    });
  }
}
