// The client of the REST API. The token is kept only in the session storage of this tab.

const KEY = "recompose-token";

/** A refusal of the service: `message` is its sentence, `errors` are its faults by field. */
export class Refusal extends Error {
  constructor(status, message, errors = []) {
    super(message);
    this.status = status;
    this.errors = errors;
  }
}

export function setToken(token) {
  if (token) sessionStorage.setItem(KEY, token);
  else sessionStorage.removeItem(KEY);
}

export function hasToken() {
  return sessionStorage.getItem(KEY) !== null;
}

export function headers(type) {
  const token = sessionStorage.getItem(KEY);
  return { ...(type && { "Content-Type": type }), ...(token && { Authorization: `Bearer ${token}` }) };
}

export const segment = encodeURIComponent;

/** Raises: Refusal if the service refuses, TypeError if it cannot be reached. */
export async function call(method, path, body, type = "application/json") {
  const text = body === undefined ? undefined : type === "application/json" ? JSON.stringify(body) : body;
  const response = await fetch(path, { method, body: text, headers: headers(text === undefined ? null : type) });
  if (!response.ok) throw await refusal(response);
  return response.status === 204 ? null : response.json();
}

export const get = (path) => call("GET", path);

export async function refusal(response) {
  if (response.status === 401) dispatchEvent(new CustomEvent("recompose-locked"));
  try {
    const { detail, errors } = await response.json();
    return new Refusal(response.status, detail, errors);
  } catch {
    return new Refusal(response.status, `the service answered ${response.status}`);
  }
}

/** The text of any error. */
export function sentence(error) {
  return error instanceof Refusal ? error.message : "the service does not answer; trying again";
}
