// The search: the index is a script beside this one, which is loaded when somebody first types. Nothing leaves the browser.
(() => {
  const input = document.getElementById("search");
  const list = document.getElementById("hits");
  let loading;
  const load = () => loading ??= new Promise((done, failed) => {
    const script = document.createElement("script");
    script.src = window.siteRoot + "index.js";
    script.onload = done;
    script.onerror = failed;
    document.head.append(script);
  });
  const find = (query) => {
    const words = query.toLowerCase().split(/\s+/).filter(Boolean);
    if (words.length === 0) return [];
    const found = [];
    for (const one of window.searchIndex) {
      const title = (one.p + " " + one.h).toLowerCase();
      const text = one.t.toLowerCase();
      if (words.every((word) => title.includes(word) || text.includes(word))) {
        found.push([words.filter((word) => title.includes(word)).length, one]);
      }
    }
    return found.sort((a, b) => b[0] - a[0]).slice(0, 15).map(([, one]) => one);
  };
  const excerpt = (text, word) => {
    const at = Math.max(0, text.toLowerCase().indexOf(word) - 40);
    return (at > 0 ? "… " : "") + text.slice(at, at + 140);
  };
  const show = async () => {
    await load();
    list.replaceChildren(...find(input.value).map((one) => {
      const item = document.createElement("li");
      const link = document.createElement("a");
      const small = document.createElement("small");
      link.href = window.siteRoot + one.u;
      link.textContent = one.h === one.p ? one.p : one.p + " – " + one.h;
      small.textContent = excerpt(one.t, input.value.trim().toLowerCase().split(/\s+/)[0]);
      link.append(small);
      item.append(link);
      return item;
    }));
    list.hidden = list.children.length === 0;
  };
  input.addEventListener("input", show);
  document.addEventListener("keydown", (event) => {
    if (event.key === "Escape") list.hidden = true;
    if (event.key === "/" && !/^(INPUT|TEXTAREA)$/.test(document.activeElement.tagName)) {
      event.preventDefault();
      input.focus();
    }
  });
  document.addEventListener("click", (event) => {
    if (!event.target.closest(".search")) list.hidden = true;
  });
})();
