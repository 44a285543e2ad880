// Elements, made without parsing text: what comes from a file is text and never markup.

const NAMESPACE = document.querySelector("svg").namespaceURI;

function filled(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes ?? {})) {
    if (typeof value === "function") element.addEventListener(name, value);
    else if (value !== null && value !== undefined && value !== false) element.setAttribute(name, value === true ? "" : value);
  }
  element.append(...children.flat().filter((child) => child !== null && child !== undefined));
  return element;
}

export function h(tag, attributes, ...children) {
  return filled(document.createElement(tag), attributes, children);
}

export function s(tag, attributes, ...children) {
  return filled(document.createElementNS(NAMESPACE, tag), attributes, children);
}

export function byId(id) {
  return document.getElementById(id);
}

// A picture with a name; what it shows is also said in words beside it.
export function draw(svg, box, label, ...children) {
  svg.setAttribute("viewBox", box.join(" "));
  svg.setAttribute("aria-label", label);
  svg.replaceChildren(...children.flat(2).filter(Boolean));
}

// A number field and a slider that move together.
export function linked(id, changed) {
  const [field, slider] = [byId(id), byId(`${id}-slider`)];
  const set = (text) => {
    const value = Math.min(Number(field.max), Math.max(Number(field.min), Math.round(Number(text)) || Number(field.min)));
    field.value = slider.value = value;
    changed(value);
  };
  slider.addEventListener("input", () => set(slider.value));
  field.addEventListener("change", () => set(field.value));
  return set;
}

// At most so many digits, without zeros at the end.
export function digits(value, most = 4) {
  if (!Number.isFinite(value)) return "not finite";
  return Math.abs(value) >= 1e5 || (value !== 0 && Math.abs(value) < 1e-4) ? value.toExponential(2) : String(Number(value.toFixed(most)));
}

// "1 pair", "2 pairs".
export function count(number, what) {
  return `${number.toLocaleString("en")} ${what}${number === 1 ? "" : "s"}`;
}

// Places on a circle: the first at the top, going clockwise.
export function onCircle(n, radius) {
  return Array.from({ length: n }, (_, i) => {
    const turn = (2 * Math.PI * i) / n;
    return [radius * Math.sin(turn), -radius * Math.cos(turn)];
  });
}

export function path(points, closed) {
  return `M${points.map(([x, y]) => `${x.toFixed(2)} ${y.toFixed(2)}`).join("L")}${closed ? "Z" : ""}`;
}
