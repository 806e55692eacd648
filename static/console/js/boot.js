// Loads the console, and says what to do where its libraries were never put into static/vendor: a static import that
// fails would leave an empty page.

try {
  if (typeof uPlot === "undefined") throw new Error("static/vendor/uplot is missing");
  if (typeof StompJs === "undefined") throw new Error("static/vendor/stomp.umd.min.js is missing");
  await import("./main.js");
} catch (error) {
  const main = document.getElementById("main");
  const [alert, title, text] = ["div", "h1", "p"].map((each) => document.createElement(each));
  alert.setAttribute("role", "alert");
  alert.className = "dead";
  title.textContent = "The console cannot start";
  const command = document.createElement("code");
  command.textContent = "make static";
  const then = ", which takes its libraries from npm's packages, and load this page again.";
  text.append(`A part of it did not load (${error.message}). Run `, command, then);
  alert.append(title, text);
  main.replaceChildren(alert);
  throw error;
}
