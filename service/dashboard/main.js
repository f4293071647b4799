// Sign-in, navigation between the pages, and the state of the connection.

import { h, renew, say } from "./dom.js";
import { hasToken, segment, setToken } from "./service.js";
import { follow } from "./stream.js";
import { samplesOf } from "./samples.js";
import { Overview } from "./overview.js";
import { AppPage } from "./app_page.js";
import { ComparePage } from "./compare.js";

const main = document.getElementById("main");
const connection = document.getElementById("connection");
const news = document.getElementById("news");
const theme = document.getElementById("theme");

let page = null;
let leave = () => {};
let lost = false;
const told = new Map();

/** The app that the address names, and the place within its page. */
function route() {
  const [path, query] = location.hash.replace(/^#/, "").split("?");
  const [, kind, name, ...place] = path.split("/");
  return kind === "app" && name ? { app: decodeURIComponent(name), place, query: new URLSearchParams(query) } : { app: null };
}

function open() {
  const { app, place, query } = route();
  const Page = place?.[0] === "runs" ? ComparePage : AppPage;
  if (app !== null && page instanceof Page && page.app === app) return page.visit(place, query);
  leave();
  page?.close();
  page = app === null ? new Overview() : new Page(app);
  main.replaceChildren(page.element);
  main.removeAttribute("aria-busy");
  document.title = app === null ? "Recompose" : `${app} · Recompose`;
  renew(document.getElementById("trail"), app ?? "", () => (app === null ? [] : [h("a", { href: "#/" }, "Apps"), h("span", { "aria-current": "page" }, app)]));
  scrollTo(0, 0);
  listen(app);
  if (app !== null) page.visit(place, query);
}

function listen(app) {
  const shown = page;
  const statuses = (value) => (Array.isArray(value) ? value : [value]);
  let filled = false;
  leave = follow(app === null ? "stream" : `status/${segment(app)}/stream`, hear, tell);

  function hear(value) {
    const list = statuses(value);
    for (const status of list) {
      samplesOf(status.app).push(status);
      announce(status);
    }
    shown.show(list);
    if (performance.getEntriesByName("recompose-first").length === 0) performance.mark("recompose-first");
    if (!filled) {
      filled = true;
      shown.catchUp();
    }
  }

  function tell(state, detail) {
    if (state === "lost") filled = false;
    connected(state, detail);
    if (state === "refused" && detail.status !== 401) shown.refuse(detail);
  }
}

function connected(state, detail) {
  if (connection.dataset.state === state && state === "live") return;
  connection.dataset.state = state;
  document.body.classList.toggle("stale", state === "lost");
  const words = { live: "live", lost: "reconnecting", refused: "refused" };
  say(connection.lastElementChild, words[state] ?? state);
  if (state === "lost" && !lost) say(news, "The service does not answer. Trying again.");
  if (state === "live" && lost) say(news, "The service is back.");
  lost = state === "lost";
  if (page) page.connected(state);
}

/** Announcements for users who do not see the page. */
function announce(status) {
  const composition = status.composition ? status.composition.name : null;
  const before = told.get(status.app);
  told.set(status.app, { composition, state: status.state, verdict: status.slo_status, alerts: status.alerts?.length ?? 0 });
  if (!before) return;
  if (composition && before.composition && composition !== before.composition)
    say(news, `${status.app} ${resized(status) ? "was resized" : "switched"} from composition ${before.composition} to ${composition}.`);
  else if (status.alerts?.length > before.alerts) say(news, `Alert of ${status.app}: ${status.alerts.at(-1).told}.`);
  else if (status.state === "failed" && before.state !== "failed") say(news, `${status.app} has failed.`);
  else if (status.slo_status !== before.verdict && ["met", "violated", "infeasible"].includes(status.slo_status))
    say(news, `${status.app}: the SLO is ${status.slo_status}.`);
}

function resized(status) {
  const last = status.last_switch;
  return last?.transition === "resize" && last.to === status.composition.name;
}

function signIn() {
  leave();
  page?.close();
  page = null;
  connected("locked");
  const wrong = hasToken();
  setToken(null);
  const field = h("input", { id: "token", type: "password", autocomplete: "off", required: true, "aria-describedby": "token-hint" });
  const submit = (event) => {
    event.preventDefault();
    setToken(field.value.trim());
    open();
  };
  const hint = wrong ? h("p", { class: "error", role: "alert", id: "token-hint" }, "The service does not accept this token.") : h("p", { class: "hint", id: "token-hint" }, "The token with which the service was started (RECOMPOSE_TOKEN), or a named one (recompose tokens). The page keeps it until you close the tab.");
  main.replaceChildren(h("form", { class: "panel sign-in", onsubmit: submit }, h("h1", {}, "Sign in"), h("label", { for: "token" }, "Token"), field, hint, h("button", { class: "primary" }, "Sign in")));
  field.focus();
}

function paint() {
  document.documentElement.dataset.theme = theme.value;
}

theme.value = localStorage.getItem("recompose-theme") ?? "";
theme.addEventListener("change", () => {
  localStorage.setItem("recompose-theme", theme.value);
  paint();
});
paint();
addEventListener("recompose-locked", signIn);
addEventListener("hashchange", open);
document.querySelector(".skip").addEventListener("click", (event) => {
  event.preventDefault();
  main.focus();
});
document.addEventListener("visibilitychange", () => {
  // A hidden page requests nothing; later it reads the missed samples from the history.
  if (page === null) return;
  leave();
  if (document.hidden) connected("paused");
  else listen(route().app);
});
open();
