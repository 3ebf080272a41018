// What a visitor may change, and the token that this takes.

import { say } from "./charts.js";

const dialog = document.querySelector("#token");
const form = dialog.querySelector("form");
const input = document.querySelector("#token-input");
const error = document.querySelector("#token-error");
const forget = document.querySelector("#forget");
const announcement = document.querySelector("#announcement");

/** Known as long as the page is open, and kept nowhere else. */
let token = null;

/** Says something to screen readers, once. */
export function announce(text) {
  say(announcement, text);
}

async function post(command, by) {
  const response = await fetch(new URL("control", import.meta.url), {
    method: "POST",
    headers: { "Content-Type": "application/json", Authorization: `Bearer ${by}` },
    body: JSON.stringify(command),
    credentials: "omit",
  });
  const text = await response.text();
  if (response.status === 401) return { wrong: true };
  let answer;
  try { answer = JSON.parse(text); } catch { answer = { error: text.trim() || `status ${response.status}` }; }
  return response.ok ? { done: answer.done } : { error: answer.error };
}

function setToken(value) {
  token = value;
  forget.hidden = token == null;
}

/** Asks for the token until it is right; `null` if the visitor gives up. */
function ask() {
  return new Promise((resolve) => {
    say(error, "");
    input.value = "";
    input.removeAttribute("aria-invalid");
    const end = (value) => {
      form.onsubmit = dialog.onclose = null;
      dialog.close();
      input.value = "";
      resolve(value);
    };
    dialog.onclose = () => end(null);
    document.querySelector("#token-cancel").onclick = () => end(null);
    form.onsubmit = async (event) => {
      event.preventDefault();
      const tried = input.value.trim();
      // Other characters cannot be in a header, so they are in no token.
      let answer;
      try { answer = /^[ -~]*$/.test(tried) ? await post({ action: "check" }, tried) : { wrong: true }; } catch { answer = { error: "no connection" }; }
      if (answer.done) return end(tried);
      say(error, answer.wrong ? "That is not the token." : answer.error);
      input.setAttribute("aria-invalid", "true");
      input.select();
    };
    dialog.showModal();
    input.focus();
  });
}

/**
 * Makes a change, and asks for the token first if it is not known.
 *
 * Shows the outcome beside the control, and announces it.
 */
export async function change(command, outcome) {
  const show = (text, failed) => {
    outcome.classList.toggle("error", failed);
    say(outcome, text);
    if (text) announce(text);
  };
  show("", false);
  try {
    let answer = token == null ? { wrong: true } : await post(command, token);
    while (answer.wrong) {
      setToken(await ask());
      if (token == null) return false;
      answer = await post(command, token);
    }
    show(answer.done ?? answer.error, !answer.done);
    return Boolean(answer.done);
  } catch {
    show("No connection: nothing was changed, or the answer was lost.", true);
    return false;
  }
}

forget.addEventListener("click", () => {
  setToken(null);
  announce("The token is forgotten.");
  document.querySelector("#main").focus();
});
