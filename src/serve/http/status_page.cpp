// SPDX-License-Identifier: Apache-2.0
#include "serve/http/endpoints.hpp"

namespace sluice::serve {

// Texts of the server go into the page as text, never as HTML.
std::string_view status_page_text() {
    static constexpr std::string_view text = R"html(<!DOCTYPE html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width">
<title>sluice serve</title>
<style>
body { font: 15px/1.5 system-ui, sans-serif; margin: 2em auto; max-width: 70em; padding: 0 1em; color: #222; }
table { border-collapse: collapse; width: 100%; }
th, td { text-align: right; padding: .3em .6em; border-bottom: 1px solid #ddd; }
th:first-child, td:first-child { text-align: left; }
textarea { width: 100%; font: 13px monospace; box-sizing: border-box; }
pre { background: #f4f4f4; padding: .8em; overflow: auto; max-height: 24em; }
.wide { overflow-x: auto; }
.tall { max-height: 40em; overflow-y: auto; }
summary { cursor: pointer; font-weight: bold; }
.bad { color: #b00; }
</style>
<h1>sluice serve</h1>
<p id="server">...</p>
<p id="locked" hidden><label>Token <input id="token" type="password" autocomplete="off"></label></p>
<div class="wide"><table><thead><tr><th>model</th><th>version</th><th>device</th><th>answered</th><th>failed</th><th>refused</th>
<th>waiting</th><th>rows a batch</th><th>median, µs</th><th>99 %, µs</th></tr></thead>
<tbody id="models"></tbody></table></div>
<p id="unloaded"></p>
<details id="requests"><summary>The last requests</summary>
<p><a href="/v2/timeline">as JSON</a> for <a href="https://ui.perfetto.dev" rel="noreferrer">Perfetto</a></p>
<div class="wide tall" id="timeline"></div></details>
<h2>Try a model</h2>
<form id="form">
<p><label>Model <select id="model"></select></label> <button>Send</button> <span id="time"></span></p>
<textarea id="request" rows="10" spellcheck="false" aria-label="request"></textarea>
</form>
<pre id="answer"></pre>
<p><a href="/metrics">metrics</a> · <a href="/v2/openapi.json">OpenAPI</a> · <a href="/v2/models/stats">statistics</a></p>
<script>
"use strict";
const at = id => document.getElementById(id);
const get = async (path, body) => {
  const made = body === undefined ? {headers: {}} : {method: "POST", headers: {"Content-Type": "application/json"}, body};
  if (at("token").value) made.headers.Authorization = "Bearer " + at("token").value;
  const reply = await fetch(path, made);
  if (reply.status === 401) {
    at("locked").hidden = false;
    throw new Error("a token is needed");
  }
  const text = await reply.text();
  return {status: reply.status, text, json: text ? JSON.parse(text) : {}};
};
// The upper bound of the bucket that holds this part of the requests.
const quantile = (bounds, counts, part) => {
  const all = counts.reduce((a, b) => a + b, 0);
  let seen = 0;
  if (all === 0) return "";
  for (let i = 0; i < counts.length; ++i) {
    seen += counts[i];
    if (seen >= part * all) return i < bounds.length ? "≤ " + bounds[i] : "> " + bounds[bounds.length - 1];
  }
};
const row = cells => {
  const made = document.createElement("tr");
  for (const each of cells) made.insertCell().textContent = each;
  return made;
};
// Only while it is open: the server has to draw it.
const draw = async () => {
  if (!at("requests").open) return;
  const headers = at("token").value ? {Authorization: "Bearer " + at("token").value} : {};
  const reply = await fetch("/v2/timeline.svg", {headers});
  if (reply.status === 401) at("locked").hidden = false;
  if (!reply.ok) {
    at("timeline").textContent = "no timeline: status " + reply.status;
    return;
  }
  const picture = new DOMParser().parseFromString(await reply.text(), "image/svg+xml").documentElement;
  for (const each of picture.querySelectorAll("script")) each.remove();
  at("timeline").replaceChildren(document.importNode(picture, true));
};
at("requests").addEventListener("toggle", () => draw().catch(f => at("timeline").textContent = f.message));
const refresh = async () => {
  try {
    const [server, ready, stats, index] = await Promise.all([get("/v2"), get("/v2/health/ready"),
      get("/v2/models/stats"), get("/v2/repository/index", "{}")]);
    at("server").textContent = server.json.name + " " + server.json.version + (ready.status === 200 ? ", ready" : ", not ready");
    at("server").className = ready.status === 200 ? "" : "bad";
    const counted = stats.status === 200 ? stats.json.model_stats : [];  // a token may not be for them
    at("models").replaceChildren(...counted.map(m => {
      const s = m.inference_stats, own = m.sluice;
      const rows = m.execution_count ? (m.inference_count / m.execution_count).toFixed(1) : "";
      return row([m.name, m.version, own.device, s.success.count, s.fail.count,
        own.refused_queue_full + own.refused_late, own.waiting, rows,
        quantile(own.latency_bounds_us, own.latency_counts, .5), quantile(own.latency_bounds_us, own.latency_counts, .99)]);
    }));
    at("unloaded").textContent = index.json.filter(m => m.state !== "READY" || m.reason).map(m => m.name +
      (m.version ? ", version " + m.version : "") + ": " +
      (m.state === "UNAVAILABLE" ? m.reason : m.state.toLowerCase() + (m.reason ? "; " + m.reason : ""))).join("; ");
    const names = [...new Set(index.json.filter(m => m.state === "READY").map(m => m.name))];
    if (names.join() !== [...at("model").options].map(o => o.value).join()) {
      at("model").replaceChildren(...names.map(n => new Option(n, n)));
      await example();
    }
    await draw();
  } catch (failure) {
    at("server").textContent = "no answer: " + failure.message;
    at("server").className = "bad";
  }
};
const example = async () => {
  const name = at("model").value;
  if (!name) return;
  const model = (await get("/v2/models/" + name)).json;
  at("request").value = JSON.stringify({inputs: model.inputs.map(input => {
    const shape = input.shape.map(length => length < 0 ? 1 : length);
    const elements = shape.reduce((a, b) => a * b, 1);
    return {name: input.name, datatype: input.datatype, shape,
      data: Array(Math.min(elements, 100000)).fill(input.datatype === "BOOL" ? false : 0)};
  })});
};
at("model").addEventListener("change", example);
at("form").addEventListener("submit", async event => {
  event.preventDefault();
  const begin = performance.now();
  const reply = await get("/v2/models/" + at("model").value + "/infer", at("request").value).catch(f => ({text: f.message}));
  at("time").textContent = (performance.now() - begin).toFixed(1) + " ms, status " + reply.status;
  at("answer").textContent = reply.json ? JSON.stringify(reply.json, null, 1) : reply.text;
});
refresh();
setInterval(refresh, 2000);
</script>
</html>
)html";
    return text;
}

}  // namespace sluice::serve
