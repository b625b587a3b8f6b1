// Light, dark, or as the system says.
export type Theme = "auto" | "light" | "dark";
const KEY = "dura-theme";

export function theme(): Theme {
  const kept = localStorage.getItem(KEY);
  return kept === "light" || kept === "dark" ? kept : "auto";
}

export const isDark = (): boolean => {
  const own = theme();
  return own === "auto" ? matchMedia("(prefers-color-scheme: dark)").matches : own === "dark";
};

export function applyTheme(chosen: Theme = theme()): void {
  if (chosen === "auto") { localStorage.removeItem(KEY); delete document.documentElement.dataset.theme; }
  else { localStorage.setItem(KEY, chosen); document.documentElement.dataset.theme = chosen; }
  dispatchEvent(new Event("themechange"));
}
