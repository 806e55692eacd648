// The login: GET /api/v1/me names the user, or says that a login is needed, and which.

import { call, NeedsLogin, news, post, useCsrf } from "./api.js";
import { sentence } from "./format.js";
import { html, nothing, render } from "./html.js";

const $ = (id) => document.getElementById(id);

let dialog = null;
let entered = () => {};

/** The user, or null; then an event of the API has opened the dialog. */
async function me() {
  try {
    const answer = await call("GET", "me");
    useCsrf(answer.csrf);
    $("who").textContent = answer.via === "local" ? "this machine" : answer.user;
    $("logout").hidden = answer.via !== "cookie";
    return answer;
  } catch (error) {
    if (error instanceof NeedsLogin) return null;
    throw error;
  }
}

/** Find the user; `then` runs after each login. */
export async function enter(then) {
  entered = then;
  if (await me()) entered();
}

/** The token for changes may be another one after the gateway has started again. */
export const refresh = () => me().catch(() => null);

function open(event) {
  if (dialog) return;
  const methods = event.detail;
  dialog = document.createElement("dialog");
  dialog.setAttribute("aria-labelledby", "login-title");
  dialog.addEventListener("cancel", (cancel) => cancel.preventDefault()); // there is nothing behind it
  document.body.append(dialog);
  draw(methods, methods[0], "");
  dialog.showModal();
  dialog.querySelector("input:not([type=radio])").focus();
}

function draw(methods, method, error) {
  const choose = (event) => draw(methods, event.target.value, "");
  render(
    html`<form @submit=${(event) => submit(event, methods, method)}>
      <h2 id="login-title">Log in to the console</h2>
      ${
        methods.length < 2
          ? nothing
          : html`<fieldset>
              <legend class="hush">Log in with</legend>
              ${methods.map(
                (each) =>
                  html`<label class="check">
                    <input type="radio" name="method" value=${each} ?checked=${each === method} @change=${choose} />
                    ${each === "token" ? "Admin token" : "Login and passcode"}
                  </label>`,
              )}
            </fieldset>`
      }
      ${
        method === "token"
          ? html`<label
              >Admin token <input name="token" type="password" required autocomplete="current-password"
            /></label>`
          : html`<label
                >Login <input name="login" required autocomplete="username" autocapitalize="off" spellcheck="false"
              /></label>
              <label
                >Passcode <input name="passcode" type="password" required autocomplete="current-password"
              /></label>`
      }
      <div role="alert">${error ? html`<p class="message bad">${sentence(error)}</p>` : nothing}</div>
      <div class="actions"><button type="submit" class="main">Log in</button></div>
    </form>`,
    dialog,
  );
}

async function submit(event, methods, method) {
  event.preventDefault();
  const form = event.target;
  const { method: _, ...body } = Object.fromEntries(new FormData(form));
  const button = form.querySelector("[type=submit]");
  button.disabled = true;
  try {
    await post("login", body);
    if (!(await me())) throw new Error("The browser did not keep the gateway's cookie: allow cookies for this page");
    dialog.close();
    dialog.remove();
    dialog = null;
    entered();
  } catch (error) {
    draw(methods, method, error.message);
    form.querySelector("input[type=password]").select();
  } finally {
    button.disabled = false;
  }
}

async function leave() {
  await post("logout");
  location.reload();
}

news.addEventListener("login", open);
$("logout").addEventListener("click", leave);
