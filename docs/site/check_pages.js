// What check_pages.py asks of a page in the browser: a list of what is wrong.
() => {
  const problems = [];
  const seen = element => element.getClientRects().length && getComputedStyle(element).visibility !== "hidden";
  const short = element => element.outerHTML.slice(0, 90).replace(/\s+/g, " ");
  const name = element => (element.getAttribute("aria-label") || element.textContent || element.title || element.value
    || [...element.querySelectorAll("img[alt], svg title")].map(one => one.alt || one.textContent).join("")).trim();
  const parse = text => {
    const [r, g, b, a = 1] = text.match(/[\d.]+/g).map(Number);
    return text.startsWith("color(") ? [r * 255, g * 255, b * 255, a] : [r, g, b, a];
  };
  const over = (top, below) => [0, 1, 2].map(i => top[i] * top[3] + below[i] * (1 - top[3])).concat(1);
  const background = element => {
    const layers = [];
    for (let at = element; at; at = at.parentElement) layers.push(parse(getComputedStyle(at).backgroundColor));
    return layers.reverse().reduce((below, top) => over(top, below), [255, 255, 255, 1]);
  };
  const light = colour => {
    const [r, g, b] = colour.map(value => (value /= 255) <= 0.03928 ? value / 12.92 : ((value + 0.055) / 1.055) ** 2.4);
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const pale = new Map();
  for (const element of document.querySelectorAll("body *")) {
    const own = [...element.childNodes].some(node => node.nodeType === 3 && node.textContent.trim());
    if (!own || !seen(element) || element.closest("svg, script, style, noscript, [aria-hidden=true], .headerlink")) continue;
    const style = getComputedStyle(element), behind = background(element);
    const [a, b] = [over(parse(style.color), behind), behind].map(light);
    const ratio = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05), size = parseFloat(style.fontSize);
    const least = size >= 24 || (size >= 18.66 && style.fontWeight >= 700) ? 3 : 4.5;
    if (ratio < least - 0.01) pale.set(element.className + style.color, `contrast ${ratio.toFixed(2)}: ${short(element)}`);
  }
  problems.push(...pale.values());
  for (const image of document.querySelectorAll("img"))
    if (!image.hasAttribute("alt") || (!image.alt && image.closest("article"))) problems.push(`no text: ${short(image)}`);
  for (const image of document.querySelectorAll("img"))
    if (image.complete && !image.naturalWidth) problems.push(`not shown: ${short(image)}`);
  for (const element of document.querySelectorAll("a[href], button, summary"))
    if (seen(element) && !name(element)) problems.push(`no name: ${short(element)}`);
  for (const field of document.querySelectorAll("input:not([type=hidden]), select, textarea"))
    if (seen(field) && !(field.labels?.length || field.ariaLabel || field.title || field.placeholder))
      problems.push(`no label: ${short(field)}`);
  const levels = [...document.querySelectorAll("article :is(h1, h2, h3, h4, h5, h6)")].map(one => +one.tagName[1]);
  if (levels.filter(level => level === 1).length !== 1) problems.push("headings: not one of the first level");
  levels.forEach((level, i) => i && level > levels[i - 1] + 1 && problems.push(`headings: ${levels[i - 1]} then ${level}`));
  if (!document.documentElement.lang) problems.push("no language");
  if (!document.title.trim()) problems.push("no title");
  if (document.documentElement.scrollWidth > innerWidth) problems.push(`as wide as ${document.documentElement.scrollWidth}`);
  for (const element of document.querySelectorAll("article *")) {
    const box = element.getBoundingClientRect();
    if (box.width && box.right > innerWidth + 1 && !element.closest(".table-wrapper, pre, svg, .formula"))
      problems.push(`cut off: ${short(element)}`);
  }
  return problems;
}
