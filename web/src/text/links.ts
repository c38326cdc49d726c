/** Addresses that a text of others names. */

/** The address if a link may lead there: `http`, `https` or `mailto`, absolute, without a name or password in it. */
export function safeAddress(written: string): string | undefined {
  let url: URL;
  try {
    url = new URL(written.trim());
  } catch {
    return undefined;
  }
  if (url.protocol === "mailto:") return url.href;
  if (url.protocol !== "http:" && url.protocol !== "https:") return undefined;
  // `https://bank.example@evil.example/` shows a host that it does not lead to.
  if (url.username !== "" || url.password !== "") return undefined;
  return url.href;
}

/** Whether the words of a link are its address already. */
export function isShown(words: string, address: string): boolean {
  const bare = (text: string): string => text.trim().replace(/^mailto:/, "").replace(/\/$/, "");
  return bare(words) === bare(address);
}
