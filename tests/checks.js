// What browser tests look at in every page: each function lists the elements that break a rule.
globalThis.checks = (() => {
  const shown = (selector) => [...document.querySelectorAll(selector)].filter((e) => e.checkVisibility());
  const name = (e) => e.id || e.outerHTML.slice(0, 120);
  const colour = (text) => {
    const values = text.match(/[\d.]+/g)?.map(Number) ?? [0, 0, 0, 0];
    const scale = text.startsWith("color(") ? 255 : 1;
    return { rgb: values.slice(0, 3).map((x) => x * scale), alpha: values[3] ?? 1 };
  };
  const light = ({ rgb }) =>
    rgb.map((x) => x / 255).map((x) => (x <= 0.03928 ? x / 12.92 : ((x + 0.055) / 1.055) ** 2.4))
      .reduce((sum, x, i) => sum + x * [0.2126, 0.7152, 0.0722][i], 0);
  const ground = (e) => {
    for (; e; e = e.parentElement) {
      const disc = e.tagName === "g" && e.querySelector("circle:not(.touch)");
      const found = colour(disc ? getComputedStyle(disc).fill : getComputedStyle(e).backgroundColor);
      if (found.alpha === 1) return found;
    }
    return { rgb: [255, 255, 255] };
  };
  const says = (e) => [...e.childNodes].some((node) => node.nodeType === 3 && node.textContent.trim());
  return {
    // Texts whose contrast with what is behind them is below 4.5.
    faint: () => shown("body *").filter((e) => !e.matches("script, option, .skip") && says(e)).filter((e) => {
      const style = getComputedStyle(e);
      const [front, back] = [light(colour(e.closest("svg") ? style.fill : style.color)), light(ground(e))];
      return (Math.max(front, back) + 0.05) / (Math.min(front, back) + 0.05) < 4.5;
    }).map(name),
    // What reaches beyond the window, unless it lies in something that scrolls.
    outside: () => shown("body *").filter((e) => {
      const box = e.getBoundingClientRect();
      return box.width && (box.right > innerWidth + 1 || box.left < -1) && !e.closest(".wide, .readings, pre, svg, .skip");
    }).map(name),
    // Tables wider than what they lie in, where that does not scroll; cells whose text is cut off.
    cut: () => [
      ...shown("table").filter((e) => e.scrollWidth > e.parentElement.clientWidth + 1 &&
        !["auto", "scroll"].includes(getComputedStyle(e.parentElement).overflowX)),
      ...shown("th, td").filter((e) => e.scrollWidth > e.clientWidth + 1 && getComputedStyle(e).overflowX !== "visible"),
    ].map(name),
    // Links and references that lead nowhere, and pictures that are not there.
    broken: () => [
      ...[...document.querySelectorAll("[href]")].filter((e) => e.getAttribute("href").startsWith("#") && !document.getElementById(e.getAttribute("href").slice(1))),
      ...[...document.images].filter((e) => !e.naturalWidth),
      ...[...document.querySelectorAll("body *")].filter((e) => [...e.attributes].some(({ value }) =>
        [...value.matchAll(/url\(#([^)]+)\)/g)].some(([, id]) => !document.getElementById(id)))),
      ...[...document.querySelectorAll("[aria-labelledby], [aria-describedby]")].filter((e) =>
        ["aria-labelledby", "aria-describedby"].some((key) => (e.getAttribute(key) ?? "").split(" ").some((id) => id && !document.getElementById(id)))),
    ].map(name),
    // Controls and pictures without a name.
    unnamed: () => shown('button, select, input, svg, [tabindex="0"]').filter((e) =>
      !(e.getAttribute("aria-label") || e.getAttribute("aria-labelledby") || e.getAttribute("aria-hidden") || e.textContent.trim() ||
        [...(e.labels ?? [])].some((label) => label.textContent.trim()))).map(name),
    // What has the focus, and how thick the line around it is.
    focused: () => {
      const e = document.activeElement;
      const line = e.tagName === "g" ? getComputedStyle(e.querySelector("circle:not(.touch)")).strokeWidth : getComputedStyle(e).outlineWidth;
      return { name: (e.id && `#${e.id}`) || e.getAttribute("aria-label") || e.textContent, line: parseFloat(line), tag: e.tagName };
    },
  };
})();
