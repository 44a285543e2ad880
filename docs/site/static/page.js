// A page from a folder may not read others: the search then lists titles, without the text around what it found.
if (location.protocol === "file:") DOCUMENTATION_OPTIONS.SHOW_SEARCH_SUMMARY = false;

// A picture that has no room, as on a phone, is a link to itself: there it can be enlarged.
addEventListener("load", () => {
  for (const image of document.querySelectorAll("article img")) {
    if (image.closest("a") || image.naturalWidth <= image.clientWidth) continue;
    const link = document.createElement("a");
    link.href = image.src;
    image.replaceWith(link);
    link.append(image);
  }
});
