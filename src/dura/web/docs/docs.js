// Shows /openapi.json: every address with its parameters, examples and statuses, and a form to try it.
"use strict";

// All text becomes text nodes, so nothing that a name holds can act.
function make(tag, options = {}, ...children) {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(options)) {
    if (name === "class") node.className = value;
    else node.setAttribute(name, value);
  }
  node.append(...children);
  return node;
}

function resolved(schema, document) {
  while (schema && schema.$ref) schema = document.components.schemas[schema.$ref.split("/").pop()];
  return schema || {};
}

function typeOf(schema) {
  if (schema.anyOf) return schema.anyOf.map(typeOf).filter((name) => name !== "null").join(" or ");
  if (schema.enum) return schema.enum.join(" or ");
  return schema.type === "array" ? `list of ${typeOf(schema.items || {})}` : schema.type || "";
}

function json(value) { return JSON.stringify(value, null, 2); }

function parameters(operation, fields) {
  const rows = (operation.parameters || []).map((one) => {
    const field = make("input", { "aria-label": one.name });
    const given = (one.schema.examples || [])[0];
    if (given !== undefined && one.required) field.value = given;
    fields.set(one.name, [field, one.schema]);
    const standard = one.schema.default === undefined || one.schema.default === null ? "" : `default ${json(one.schema.default)}`;
    const note = [one.description || one.schema.description || "", one.required ? "required" : standard].filter(Boolean).join("; ");
    return make("tr", {}, make("td", {}, make("code", {}, one.name)), make("td", {}, typeOf(one.schema)), make("td", {}, note), make("td", {}, field));
  });
  if (!rows.length) return "";
  const head = ["parameter", "type", "", "try"].map((text) => make("th", { scope: "col" }, text));
  return make("table", {}, make("thead", {}, make("tr", {}, ...head)), make("tbody", {}, ...rows));
}

function query(fields) {
  const asked = new URLSearchParams();
  for (const [name, [field, schema]] of fields) {
    if (field.value === "") continue;
    const list = typeOf(schema).startsWith("list");
    for (const value of list ? field.value.split(",") : [field.value]) asked.append(name, value.trim());
  }
  return asked.size ? `?${asked}` : "";
}

async function ask(method, address, body) {
  const headers = { Accept: "application/json" };
  const token = document.getElementById("token").value;
  if (token) headers.Authorization = `Bearer ${token}`;
  if (body !== undefined) headers["Content-Type"] = "application/json";
  const begun = performance.now();
  const reply = await fetch(address, { method, headers, body });
  let text = await reply.text();
  try { text = json(JSON.parse(text)); } catch { /* it is not JSON */ }
  return `${reply.status} ${reply.statusText}, ${Math.round(performance.now() - begun)} ms\n${text.slice(0, 20000)}`;
}

function trial(method, path, operation, fields) {
  const form = make("form");
  let body;
  if (operation.requestBody) {
    const example = operation.requestBody.content["application/json"].example;
    body = make("textarea", { "aria-label": "body" });
    body.value = json(example);
    form.append(make("h3", {}, "Body"), body);
  }
  const shown = make("pre", { hidden: "", tabindex: "0", "aria-label": "answer" });
  form.append(make("button", { type: "submit" }, "Ask"), shown);
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    shown.hidden = false;
    const address = path + query(fields);
    try { shown.textContent = `${method.toUpperCase()} ${address}\n${await ask(method.toUpperCase(), address, body && body.value)}`; }
    catch (error) { shown.textContent = String(error); }
  });
  return form;
}

function address(path, method, operation, document) {
  const fields = new Map();
  const inside = make("div", { class: "inside" });
  inside.append(parameters(operation, fields), trial(method, path, operation, fields));
  const right = operation.responses["200"].content["application/json"];
  if (right && right.example) inside.append(make("h3", {}, "Example of an answer"), make("pre", { tabindex: "0" }, json(right.example)));
  const keys = right ? Object.keys(resolved(right.schema, document).properties || {}) : [];
  if (keys.length) inside.append(make("h3", {}, "Keys of an answer"), make("p", {}, make("code", {}, keys.join(", "))));
  const rows = Object.entries(operation.responses).map(([status, reply]) => make("tr", {}, make("td", {}, make("code", {}, status)), make("td", {}, reply.description)));
  inside.append(make("h3", {}, "Statuses"), make("table", {}, make("tbody", {}, ...rows)));
  const title = make("summary", {}, make("span", { class: `method ${method}` }, method.toUpperCase()), make("code", {}, path), ` ${operation.summary || ""}`);
  return make("details", {}, title, inside);
}

async function start() {
  const place = document.getElementById("addresses");
  try {
    const described = await (await fetch("/openapi.json")).json();
    document.getElementById("version").textContent = described.info.version;
    document.getElementById("about").textContent = described.info.description;
    const every = Object.entries(described.paths).flatMap(([path, methods]) => Object.entries(methods).map(([method, operation]) => address(path, method, operation, described)));
    place.replaceChildren(...every);
  } catch (error) { place.textContent = `The description could not be loaded: ${error}`; }
}

start();
