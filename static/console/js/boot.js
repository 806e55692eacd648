// Loads the console, and says what to do where its libraries were never put into static/vendor: a static import that
// fails would leave an empty page.

try {
  if (typeof uPlot === "undefined") throw new Error("static/vendor/uplot is missing");
  if (typeof StompJs === "undefined") throw new Error("static/vendor/stomp.umd.min.js is missing");
  await import("./main.js");
} catch (error) {
  const main = document.getElementById("main");
  const [title, text] = [document.createElement("h1"), document.createElement("p")];
  main.setAttribute("role", "alert");
  main.classList.add("dead");
  title.textContent = "The console cannot start";
  text.textContent =
    `A part of it did not load (${error.message}). Run \`make static\`, which takes its libraries ` +
    "from npm's packages, and load this page again.";
  main.replaceChildren(title, text);
  throw error;
}
