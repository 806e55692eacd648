// A page that does not exist: a mistyped address, or one of a newer gateway.

import { html, render } from "../html.js";
import { link, place } from "../router.js";

export const nowhere = {
  title: "No such page",
  mount(root) {
    const update = () =>
      render(
        html`<div class="page-head"><h1>No such page</h1></div>
          <div class="card empty">
            <strong>The console has no page <code>${place().name}</code></strong>
            <span>The address is mistyped, or belongs to another version of the gateway.</span>
            <a href=${link("overview")}>To the overview</a>
          </div>`,
        root,
      );
    update();
    return { update };
  },
};
