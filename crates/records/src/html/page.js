"use strict";
// Convenience alone: without it every call still opens at its row.
const calls = [...document.querySelectorAll("details.call")];
const tools = document.querySelector(".tools");
tools.hidden = false;
tools.addEventListener("click", (event) => {
  const what = event.target.dataset.do;
  if (what) for (const call of calls) if (!call.hidden) call.open = what === "open";
});
const words = new Map();
tools.querySelector("input").addEventListener("input", (event) => {
  const wanted = event.target.value.trim().toLowerCase();
  for (const call of calls) {
    if (!words.has(call)) words.set(call, call.textContent.toLowerCase());
    call.hidden = wanted !== "" && !words.get(call).includes(wanted);
  }
});
const reveal = () => {
  const call = location.hash && document.getElementById(location.hash.slice(1));
  if (call && calls.includes(call)) {
    call.hidden = false;
    call.open = true;
    call.scrollIntoView({ block: "start" });
  }
};
addEventListener("hashchange", reveal);
document.addEventListener("click", (event) => {
  if (event.target.closest("a[href^='#call-']")) setTimeout(reveal);
});
reveal();
