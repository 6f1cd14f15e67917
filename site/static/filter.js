// A box above the tables of a page: rows that do not hold all words are hidden, and so are tables without rows.
document.addEventListener("DOMContentLoaded", () => {
  const box = document.getElementById("filter");
  if (!box) return;
  const tables = [...document.querySelectorAll(".bd-article table")].map((table) => ({ table, rows: [...table.querySelectorAll("tbody tr")] }));
  const count = document.getElementById("filter-count");
  const apply = () => {
    const words = box.value.toLowerCase().split(/\s+/).filter(Boolean);
    let shown = 0;
    for (const { table, rows } of tables) {
      let left = 0;
      for (const row of rows) {
        const text = row.textContent.toLowerCase();
        row.hidden = !words.every((word) => text.includes(word));
        if (!row.hidden) left += 1;
      }
      table.hidden = left === 0;
      shown += left;
    }
    count.textContent = words.length ? `${shown} rows` : "";
  };
  box.addEventListener("input", apply);
  const asked = new URLSearchParams(window.location.search).get("find");
  if (asked) { box.value = asked; apply(); }
});
