const paths = {
  check: "M3.5 8.5 6.5 11.5 12.5 5",
  cross: "M4.5 4.5 11.5 11.5 M11.5 4.5 4.5 11.5",
  search: "M7 11.5a4.5 4.5 0 1 0 0-9 4.5 4.5 0 0 0 0 9z M10.4 10.4 13.5 13.5",
  sun: "M8 10.7a2.7 2.7 0 1 0 0-5.4 2.7 2.7 0 0 0 0 5.4z M8 1.5v1.6 M8 12.9v1.6 M1.5 8h1.6 M12.9 8h1.6 M3.4 3.4l1.1 1.1 M11.5 11.5l1.1 1.1 M12.6 3.4l-1.1 1.1 M4.5 11.5l-1.1 1.1",
  moon: "M13 9.6A5.3 5.3 0 0 1 6.4 3 5.3 5.3 0 1 0 13 9.6z",
  plus: "M8 3.5v9 M3.5 8h9",
  minus: "M3.5 8h9",
  home: "M3 8a5 5 0 1 0 1.6-3.7 M3 2.8v2.4h2.4",
  left: "M9.8 4 5.8 8l4 4",
  right: "M6.2 4l4 4-4 4",
  half: "M8 2.5a5.5 5.5 0 1 0 0 11z M8 2.5a5.5 5.5 0 0 1 0 11",
} as const;

export const Icon = ({ name }: { name: keyof typeof paths }) => (
  <svg class="icon" viewBox="0 0 16 16" width="16" height="16" aria-hidden="true" focusable="false"><path d={paths[name]} /></svg>
);
